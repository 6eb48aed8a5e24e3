from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from hmz_mp.agents.schema import NotOfSchema, decoder_for
from tests.fakes.programs import fake_claude
from tests.helpers import run_script


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


def test_schemas_that_only_the_callers_script_has(tmp_path: Path) -> None:
    source = (
        "import dataclasses, sys, typing, msgspec, pydantic\n"
        "from hmz_mp.agents import agent_from_spec\n"
        "class A(msgspec.Struct): n: int\n"
        "@dataclasses.dataclass\n"
        "class B: n: int\n"
        "class C(typing.TypedDict): n: int\n"
        "class D(pydantic.BaseModel): n: int\n"
        "agent = agent_from_spec(sys.argv[1])\n"
        "for kind in (A, B, C, D):\n"
        "    for _ in range(2):\n"
        '        value = agent(\'value {"n": "x"} | {"n": 3}\', schema=kind)\n'
        "        assert type(value) is (dict if kind is C else kind), value\n"
        "print(agent.spent.input_tokens)\n"
    )
    agent = f"cli=claude,model=opus,program={fake_claude(tmp_path)},home={tmp_path / 'home'}"
    done = run_script(tmp_path, source, agent)
    assert done.stdout == "1600\n", done
