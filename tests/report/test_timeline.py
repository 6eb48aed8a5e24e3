import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.report.cards import Card
from hmz_mp.report.timeline import WIDTH, levels, timeline

from .support import card


def ran(number: int, began: float, ended: float, **fields: Any) -> Card:
    return card(number, **({"began": began, "ended": ended, "waited": 0.0, "worker": 7} | fields))


def test_nothing_ran() -> None:
    assert timeline([card(0)], 10.0) is None


def test_few_turns_are_bars() -> None:
    found = timeline([ran(0, 0.0, 5.0), ran(1, 2.5, 10.0, status="failed")], 10.0)
    assert found is not None
    everything, worker = found.lanes
    assert (everything.label, everything.note) == (
        "all workers",
        "2 turns, 1 failed, up to 2 at once",
    )
    assert everything.marks == (WIDTH,)
    assert (worker.label, worker.kind, len(worker.bars)) == ("worker 7", "bars", 2)
    first, second = worker.bars
    assert (first.x, first.width, first.status) == (0.0, 500.0, "ok")
    assert (second.x, second.width, second.status) == (250.0, 750.0, "failed")
    assert second.y >= first.y + first.height
    assert first.title == "file0.py: 5.0 s"
    assert found.ticks[0] == (0.0, "0 s")
    assert found.ticks[-1] == (100.0, "10 s")


@pytest.mark.parametrize("at_once", [1, 20])
def test_many_turns_are_an_area(at_once: int) -> None:
    cards = [ran(n, float(n), float(n + at_once)) for n in range(400 if at_once == 1 else 40)]
    found = timeline(cards, 1.0)
    assert found is not None
    (_, worker) = found.lanes
    assert (worker.bars, worker.kind) == ((), "busy")
    assert re.fullmatch(r"M0 22(V[\d.]+H[\d.]+)*V[\d.]+H1000V22Z", worker.area)
    assert ("at once" in worker.note) == (at_once > 1)


def test_many_workers_share_a_lane() -> None:
    found = timeline([ran(n, 0.0, 1.0, worker=n + 1) for n in range(45)], 1.0)
    assert found is not None
    assert len(found.lanes) == 1 + 40 + 1
    assert found.lanes[-1].label == "5 more workers"
    assert found.lanes[-1].note == "5 turns, up to 5 at once"


def test_waiting_has_a_lane() -> None:
    found = timeline([ran(n, 5.0, 6.0, waited=5.0) for n in range(3)], 6.0)
    assert found is not None
    waiting = found.lanes[1]
    assert (waiting.label, waiting.note) == ("waiting to run", "up to 3 waited")


def test_a_picture_does_not_grow_with_the_number_of_turns() -> None:
    cards = [ran(n, n / 100, n / 100 + 1, worker=n % 8, status="failed") for n in range(20_000)]
    found = timeline(cards, 1.0)
    assert found is not None
    for lane in found.lanes:
        assert len(lane.area) < 15_000
        assert len(lane.marks) <= 200
        assert not lane.bars


def test_a_moment_is_a_timeline_too() -> None:
    found = timeline([ran(0, -3.0, -3.0)], 0.0)
    assert found is not None
    assert found.lanes[-1].bars[0].x == 0.0
    assert timeline([ran(0, 0.0, 0.0)], 0.0) is not None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100))))
def test_levels_add_up(drawn: list[tuple[float, float]]) -> None:
    times = [(min(pair), max(pair)) for pair in drawn]
    found = levels(times, 0.0, 100.0)
    assert len(found) == 500
    together = sum(found) * 100 / 500
    assert together == pytest.approx(sum(end - begin for begin, end in times), abs=1e-6)
