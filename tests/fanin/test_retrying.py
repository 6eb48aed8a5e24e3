from __future__ import annotations

from typing import Any

import pytest

from hmz_mp.fanin import Retry
from hmz_mp.fanin.retrying import checked


def test_words_and_retries() -> None:
    assert checked("fail") == Retry(0, then="fail")
    assert checked("partial") == Retry(0, then="partial")
    assert checked(Retry(2, 0.5)) == Retry(2, 0.5, "partial")


@pytest.mark.parametrize("value", ["raise", None, Retry, 3])
def test_other_words(value: Any) -> None:
    with pytest.raises(ValueError, match="on_failure is 'fail', 'partial' or a Retry"):
        checked(value)


@pytest.mark.parametrize(
    "given", [{"times": -1}, {"backoff": -1}, {"backoff": float("inf")}, {"then": "again"}]
)
def test_retries_that_make_no_sense(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        Retry(**given)


def test_pauses_double() -> None:
    assert [Retry(3, 0.5).pause(tries) for tries in (1, 2, 3)] == [0.5, 1.0, 2.0]
