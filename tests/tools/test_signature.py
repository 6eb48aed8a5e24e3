from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from hmz_mp import tool
from hmz_mp.tools import BadArguments
from hmz_mp.tools.signature import Signature


@dataclass
class Box:
    width: int
    label: str = ""


class Inner(pydantic.BaseModel):
    n: int


class Outer(pydantic.BaseModel):
    inner: Inner


def search(
    query: Annotated[str, msgspec.Meta(description="what to look for")],
    kind: Literal["file", "text"] = "text",
    *,
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10,
) -> list[str]:
    """Find things."""
    return [query, kind, str(limit)]


def positional(a: int, /, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
    return a, b, c


def typed(path: Path, box: Box | None = None, numbers: list[int] | None = None) -> Any:
    return path, box, numbers


def loose(first, *rest, **more):  # type: ignore[no-untyped-def]  # as users may write it
    return first, more


def nothing() -> None: ...


def modelled(outer: Outer) -> int:
    return outer.inner.n


def unknown(x: complex) -> None: ...


def only_rest(*paths: str) -> None: ...


def signature(function: Callable[..., Any]) -> Signature:
    return Signature(function, function.__name__)


def call(function: Callable[..., Any], arguments: Any) -> Any:
    args, kwargs = signature(function).read(arguments)
    return function(*args, **kwargs)


def test_a_schema_of_the_signature() -> None:
    assert signature(search).schema() == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "kind": {"enum": ["file", "text"], "default": "text"},
            "limit": {"type": "integer", "minimum": 1, "default": 10},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert signature(nothing).schema()["properties"] == {}


def test_schemas_of_types_of_others() -> None:
    found = signature(typed).schema()
    assert found["properties"]["path"] == {"type": "string", "format": "path"}
    assert found["$defs"]["Box"]["required"] == ["width"]
    of_models = signature(modelled).schema()
    assert of_models["$defs"]["Inner"]["properties"]["n"]["type"] == "integer"
    assert "$defs" not in of_models["properties"]["outer"]
    json.dumps([found, of_models])


def test_a_schema_without_annotations() -> None:
    found = signature(loose).schema()
    assert found["properties"] == {"first": {}}
    assert "additionalProperties" not in found


@pytest.mark.parametrize(("function", "words"), [(unknown, "unknown"), (only_rest, r"\*paths")])
def test_what_cannot_be_described(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        signature(function).schema()


def test_annotations_that_nobody_finds() -> None:
    class Local: ...

    def odd(x: Local) -> None: ...

    with pytest.raises(TypeError, match="annotations of odd"):
        tool(odd).parameters  # noqa: B018  # reading it is the point


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"query": "a"}, ["a", "text", "10"]),
        ('{"query": "a", "kind": "file", "limit": 3}', ["a", "file", "3"]),
        (json.dumps(json.dumps({"query": "a"})), ["a", "text", "10"]),  # JSON in JSON
        ({"query": "a", "limit": "3"}, ["a", "text", "3"]),  # a number in a string
        ({"query": "3"}, ["3", "text", "10"]),  # a text is a text
        (b'{"query": "a"}', ["a", "text", "10"]),
    ],
)
def test_arguments_are_read(arguments: Any, answer: list[str]) -> None:
    assert call(search, arguments) == answer


def test_arguments_become_what_the_annotations_say() -> None:
    path, box, numbers = call(typed, {"path": "a/b", "box": '{"width": 3}', "numbers": "[1, 2]"})
    assert (path, box, numbers) == (Path("a/b"), Box(3), [1, 2])
    assert call(modelled, {"outer": {"inner": {"n": 3}}}) == 3


def test_arguments_of_each_kind() -> None:
    assert call(positional, {"a": 1}) == (1, 2, 3)
    assert call(positional, {"c": 9, "b": 8, "a": 7}) == (7, 8, 9)
    assert call(loose, {"first": 1, "other": [2]}) == (1, {"other": [2]})


@pytest.mark.parametrize("arguments", [None, "", " ", {}, "{}"])
def test_no_arguments(arguments: Any) -> None:
    assert call(nothing, arguments) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"query": "a"', "not JSON"),
        ("[1]", "no JSON object"),
        ("3", "no JSON object"),
        (3, "no JSON object"),
        ('"text"', "not JSON"),
        ({}, "missing required field `query`"),
        ({"query": 3}, "Expected `str`"),
        ({"query": "a", "kind": "dir"}, "Invalid enum value"),
        ({"query": "a", "limit": 0}, ">= 1"),
        ({"query": "a", "limit": "many"}, "Expected `int`"),
        ({"query": "a", "deep": True}, "unknown field `deep`"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, words: str) -> None:
    with pytest.raises(BadArguments) as caught:
        call(search, arguments)
    assert words in str(caught.value)
    assert "It takes query, kind (optional), limit (optional)." in str(caught.value)


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(BadArguments, match="arguments of modelled"):
        call(modelled, {"outer": {"inner": {"n": "many"}}})


def test_what_a_model_is_told() -> None:
    found = tool(search)
    assert found.parameters == signature(search).schema()
    assert found.explanation.startswith("Find things.\n\nCalls are independent of each other:")
    listed = tool(batch=True)(search)
    assert "It takes a list: give it all items in one call." in listed.explanation
