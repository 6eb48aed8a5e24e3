from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from hmz_mp.agents.schema import NotOfSchema, decoder_for


class Struct(msgspec.Struct):
    a: int


@dataclass
class Data:
    a: int


class Typed(TypedDict):
    a: int


class Model(pydantic.BaseModel):
    a: int


@pytest.mark.parametrize("schema", [Struct, Data, Model])
def test_an_answer_of_a_type(schema: Any) -> None:
    answer = decoder_for(schema)('{"a": 1}')
    assert type(answer) is schema
    assert answer.a == 1


def test_an_answer_of_a_typed_dict_or_a_list() -> None:
    assert decoder_for(Typed)('{"a": 1}') == {"a": 1}
    assert decoder_for(list[Struct])('[{"a": 1}]') == [Struct(1)]


def test_file_names_that_are_not_utf8() -> None:
    assert decoder_for(list[str])(r'["bad\udcff.py"]') == ["bad\udcff.py"]
    with pytest.raises(NotOfSchema):
        decoder_for(list[int])(r'["bad\udcff.py"]')


@pytest.mark.parametrize("schema", [Struct, Data, Typed, Model])
@pytest.mark.parametrize("answer", ["", "no json", '{"a": "one"}', "{}", '{"a": 1} x', "\udcff"])
def test_an_answer_that_does_not_fit(schema: Any, answer: str) -> None:
    with pytest.raises(NotOfSchema, match=f"the answer does not fit {schema.__name__}: ") as caught:
        decoder_for(schema)(answer)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schema", [object, lambda: None, 3, Exception, {"type": "object"}])
def test_what_no_answer_can_be(schema: Any) -> None:
    with pytest.raises(TypeError, match="schema="):
        decoder_for(schema)
