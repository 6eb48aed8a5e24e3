from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.fanin.outliers import outlying, spread


def numbered(*numbers: float) -> dict[str, float]:
    return {str(place): number for place, number in enumerate(numbers)}


@pytest.mark.parametrize(
    ("numbers", "far"),
    [
        ((), []),
        ((1,), []),
        ((1, 100), []),
        ((5, 5, 5, 5), []),  # constant
        ((5, 5, 5, 5, 5, 5, 5, 5, 100), ["8"]),  # ties: the median distance is 0
        ((0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3), []),  # what floats differ by
        ((10, 11, 12, 13, 14, 90), ["5"]),
        ((10, 11, 12, 13, 14, 90, -500), ["6", "5"]),  # the farthest first
        ((10, 11, 12, 13, math.inf), ["4"]),
        ((10, 11, 12, 13, math.nan), []),
        ((math.inf, math.inf), ["0", "1"]),
        ((1, 1, 1, 2, 2, 2), []),
        ((-3, -3, -3, -3, -3, -3, -3, 40), ["7"]),
    ],
)
def test_what_stands_out(numbers: tuple[float, ...], far: list[str]) -> None:
    assert list(outlying(numbered(*numbers))) == far


def test_a_threshold_may_be_wider() -> None:
    numbers = numbered(10, 11, 12, 13, 14, 30)
    assert list(outlying(numbers)) == ["5"]
    assert list(outlying(numbers, 50)) == []


def test_a_spread_says_where_numbers_lie() -> None:
    found = spread(numbered(1, 2, 3, 4, math.inf))
    assert found is not None
    assert (found.median, found.smallest, found.largest) == (2.5, 1, 4)
    assert spread({}) is spread(numbered(math.nan)) is None


@given(st.lists(st.integers(-1000, 1000), min_size=1), st.integers(1, 50), st.integers(-9, 9))
def test_it_does_not_matter_where_and_in_which_unit(
    numbers: list[int], factor: int, shift: int
) -> None:
    moved = numbered(*(one * factor + shift for one in numbers))
    assert set(outlying(moved)) == set(outlying(numbered(*numbers)))


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)))
def test_never_most_of_the_finite(numbers: list[float]) -> None:
    finite = {key for key, one in numbered(*numbers).items() if math.isfinite(one)}
    assert len(finite & set(outlying(numbered(*numbers)))) <= len(finite) / 2


def test_numbers_whose_sum_is_none_that_a_float_can_hold() -> None:
    huge = sys.float_info.max
    assert list(outlying(numbered(0.0, 0.0, 0.0, 1.0, 2.0, huge))) == ["5"]
    found = spread(numbered(0.0, 0.0, 0.0, huge / 2, huge))
    assert found is not None
    assert (found.median, found.smallest, found.largest) == (0.0, 0.0, huge)
    assert math.isfinite(found.scale)
    assert outlying(numbered(huge, huge, huge)) == {}
    assert outlying(numbered(-huge, huge, huge, -huge)) == {}
