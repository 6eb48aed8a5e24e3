import pytest

from hmz_mp.report.cards import Card
from hmz_mp.report.figures import reasons, spread

from .support import card


def took(*seconds: float, status: str = "ok") -> list[Card]:
    return [card(n, seconds=one, status=status) for n, one in enumerate(seconds)]


def test_nothing_ran() -> None:
    assert spread([card(0, seconds=None)]) is None


def test_marks() -> None:
    found = spread(took(*range(1, 101)))
    assert found is not None
    marks = dict(found.marks)
    assert marks == {
        "shortest": 1,
        "median": 51,
        "90 %": 91,
        "99 %": 100,
        "longest": 100,
        "all together": 5050,
    }


def test_bins_hold_every_turn_and_their_edges_meet() -> None:
    found = spread([*took(0.0, 0.5, 1.0, 9.0), *took(0.6, status="failed")])
    assert found is not None
    assert sum(one.ok for one in found.bins) == 4
    assert sum(one.others for one in found.bins) == 1
    for one, other in zip(found.bins, found.bins[1:], strict=False):
        assert one.high == pytest.approx(other.low)
    assert found.bins[-1].low <= 9.0 < found.bins[-1].high
    assert found.fullest == 2


def test_reasons_are_counted_by_their_first_line() -> None:
    given = [card(0, error="a\nb"), card(1, error="a"), card(2, error="c"), card(3)]
    assert reasons(given, 1) == [("a", 2)]
