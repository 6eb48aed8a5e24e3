from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from hmz_mp.dispatch.rendering import NotJson, cut, text_of


class Point(msgspec.Struct):
    x: int


@dataclass
class Line:
    to: Point


class Model(pydantic.BaseModel):
    n: int


class Scalar:
    def item(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("\udcff", "\\udcff"),
        (None, "null"),
        (Line(Point(1)), '{"to": {"x": 1}}'),
        ({"ü": (1, 2.5, True)}, '{"ü": [1, 2.5, true]}'),
        ({1: "a"}, '{"1": "a"}'),
        ([Path("a/b"), ValueError("x")], '["a/b", "ValueError: x"]'),
        (Model(n=1), '{"n": 1}'),
        (Scalar(), "3"),
        (float("nan"), "NaN"),
        (2**70, "1180591620717411303424"),
        (b"ab", '"YWI="'),
        ({"name": "\udcff"}, '{"name": "\\udcff"}'),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert text_of(value) == text


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "value", [object(), [1, {2: complex(1)}], {(1, 2): 3}, _endless(), str.upper]
)
def test_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(NotJson, match=type(value).__name__):
        text_of(value)


def test_cutting() -> None:
    assert cut("short", 5) == "short"
    said = cut("x" * 5000, 100, "the whole is in /tmp/x")
    assert len(said) == 100
    assert said.endswith("x … [cut: 5,000 characters in all, the whole is in /tmp/x]")
    assert cut("x" * 50, 1) == " … [cut: 50 characters in all]"
