from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from hmz_mp_worker.backends.schemas import NotOfSchema, schema_for


class Inner(msgspec.Struct):
    name: str


class Outer(msgspec.Struct):
    inner: list[Inner]
    kind: Literal["a", "b"] = "a"


class Tree(msgspec.Struct):
    value: int
    below: list[Tree] = []


class Model(pydantic.BaseModel):
    a: int
    inner: list[dict[str, int]] = []


class Typed(TypedDict):
    a: int


@dataclass
class Data:
    a: int


@pytest.mark.parametrize("schema", [Data, Model, Outer, Tree, Typed])
def test_an_object_is_at_the_top(schema: Any) -> None:
    found = json.loads(schema_for(schema).text)
    assert found["type"] == "object"
    assert "$ref" not in found
    text = json.dumps(found)
    for name in found.get("$defs", {}):
        assert f"#/$defs/{name}" in text
    for at in text.split("#/$defs/")[1:]:
        assert at.partition('"')[0] in found["$defs"]


@pytest.mark.parametrize("schema", [Data, Model, Typed])
def test_checking(schema: Any) -> None:
    check = schema_for(schema).check
    assert check('{"a": 3}') == '{"a": 3}'
    assert check('```json\n{"a": 3}\n```\n') == '{"a": 3}'
    for wrong in ('{"a": "x"}', "{}", "three", ""):
        with pytest.raises(NotOfSchema, match=f"does not fit {schema.__name__}"):
            check(wrong)


@pytest.mark.parametrize("schema", [list[int], Literal["a", "b"], list[Inner]])
def test_what_is_no_object_is_put_in_one(schema: Any) -> None:
    found = json.loads(schema_for(schema).text)
    assert found["required"] == ["value"]
    assert "$defs" not in found["properties"]["value"]


def test_a_wrapped_value_comes_out_again() -> None:
    check = schema_for(list[int]).check
    assert json.loads(check('{"value": [1, 2]}')) == [1, 2]
    assert json.loads(check("[3]")) == [3]  # one that was given as it is
    with pytest.raises(NotOfSchema):
        check('{"value": "x"}')


@pytest.mark.parametrize("schema", [Outer, Tree, Model])
def test_strict_schemas_require_everything(schema: Any) -> None:
    found = json.loads(schema_for(schema, strict=True).text)
    for one in [found, *found.get("$defs", {}).values()]:
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])
    assert '"default"' not in json.dumps(found)
    assert json.loads(schema_for(schema).text) != found  # the other is left alone


def test_a_type_without_a_schema() -> None:
    with pytest.raises(TypeError, match="schema="):
        schema_for(object)
