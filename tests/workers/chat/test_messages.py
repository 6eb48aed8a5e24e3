from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hmz_mp_worker.backends.schemas import schema_for
from hmz_mp_worker.chat.messages import is_closed


class Size(msgspec.Struct):
    n: int
    unit: str | None = None


class Box(msgspec.Struct):
    sizes: list[Size]
    inner: Box | None = None


class Open(msgspec.Struct):
    any: Any


@pytest.mark.parametrize(
    ("kind", "closed"),
    [
        (Size, True),
        (Box, True),
        (int, True),
        (list[str], True),
        (dict[str, int], False),
        (list[dict[str, int]], False),
        (Open, False),
        (list, False),
        (dict[str, Size], False),
    ],
)
def test_what_leaves_nothing_open(kind: Any, closed: bool) -> None:
    assert is_closed(msgspec.json.decode(schema_for(kind, strict=True).text)) is closed


def test_an_object_is_open_unless_it_says_otherwise() -> None:
    assert not is_closed(msgspec.json.decode(schema_for(Size).text))
    assert is_closed({"type": "object", "properties": {}, "additionalProperties": False})
    assert not is_closed({})
    assert is_closed({"$ref": "#/$defs/A", "$defs": {"A": {"enum": [1]}}})
    assert not is_closed({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}})
