from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from hmz_mp.fanin.fields import field_of, fields_of, number_of


class Struct(msgspec.Struct):
    n: int


@dataclass(slots=True)
class Slotted:
    n: int


class Pair(NamedTuple):
    n: int


class Plain:
    def __init__(self) -> None:
        self.n = 1


@pytest.mark.parametrize("value", [{"n": 1}, Struct(1), Slotted(1), Pair(1), Plain()])
def test_fields_of_many_kinds(value: Any) -> None:
    assert fields_of(value)["n"] == field_of(value, "n") == 1
    assert field_of({"inner": value}, "inner.n") == 1
    assert field_of(value, "n.deeper") is field_of(value, "m") is None


@pytest.mark.parametrize("value", [None, "text", b"", [1], int, Plain])
def test_what_has_none(value: Any) -> None:
    assert dict(fields_of(value)) == {}


def test_a_name_with_dots_in_it() -> None:
    assert field_of({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert field_of({".": 1}, ".") == 1


def test_a_number_is_a_value() -> None:
    assert fields_of(3) == {"value": 3}


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (2.5, 2.5), (10**400, math.inf), (math.nan, None), (True, None), ("1", None)],
)
def test_numbers(value: Any, number: float | None) -> None:
    assert number_of(value) == number
    assert number_of([value]) is None
