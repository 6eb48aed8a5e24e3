from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp.core.weights import Average, weight_of


@pytest.mark.parametrize("value", [b"x" * 10_000, "x" * 10_000, bytearray(10_000),
                                   memoryview(bytes(10_000)), [b"x" * 100] * 100,
                                   dict.fromkeys(range(10), "x" * 1000), (b"x" * 10_000,),
                                   [[[b"x" * 10_000]]]])  # fmt: skip
def test_about_its_bytes(value: Any) -> None:
    assert 10_000 <= weight_of(value) <= 30_000


@pytest.mark.parametrize("value", [1, None, 1.5, (), [], {}, object(), len])
def test_small_ones(value: Any) -> None:
    assert 0 < weight_of(value) < 100


def test_arrays() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert weight_of([numpy.zeros(1000)] * 5) >= 5 * 8000


class Refuses:
    @property
    def nbytes(self) -> int:
        raise RuntimeError("no")


class Lies:
    nbytes = "many"


class Owes:
    nbytes = -5


@pytest.mark.parametrize("value", [Refuses(), Lies(), Owes()])
def test_whatever_a_class_says_of_itself(value: Any) -> None:
    assert 0 < weight_of(value) < 100


def test_what_holds_itself() -> None:
    inside: list[Any] = [b"x"]
    inside.append(inside)
    assert weight_of(inside) < 10_000


@settings(max_examples=30)
@given(st.recursive(st.integers() | st.binary(), st.lists, max_leaves=8))
def test_any_value_has_a_weight(value: Any) -> None:
    assert weight_of(value) > 0


def test_an_average_rises_at_once_and_falls_slowly() -> None:
    average = Average()
    average.note(1000)
    assert average.value == 1000
    average.note(0)
    assert 800 < average.value < 1000
    for _ in range(100):
        average.note(0)
    assert average.value < 1
