import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.report.spans import Clock, in_slots, ran_by_worker, read_spans
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.ledger import Ledger

from ..runs.support import new_ledger, turn


def test_turns_in_time(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, "\udcff", state="ok", began_at=101.0, ended_at=103.0, worker=7))
        ledger.put(turn(1, state="not_run"))
        ledger.put(turn(2, state="running", began_at=100.5, worker=7))
        ledger.put(turn(3, state="failed", began_at=102.0, ended_at=102.5, worker=8))
        ledger.finish("failed", 1, {})
    with open_run(tmp_path, "last") as run:
        clock = Clock(run)
        spans = read_spans(run, clock)
        start = run.summary.started_at
    assert [one.item_id for one in spans] == ["\udcff", "file1.py", "file2.py", "file3.py"]
    assert [one.state for one in spans] == ["ok", "not_run", "cancelled", "failed"]
    assert spans[0].begin == pytest.approx(101.0 - start)
    assert spans[0].ended_at - spans[0].shift == pytest.approx(103.0)
    assert spans[1].begin == pytest.approx(101.0 - start)
    assert spans[1].ended_at == clock.seconds
    assert spans[2].ended_at == clock.seconds
    by_worker = ran_by_worker(spans)
    assert {pid: [one.number for one in ran] for pid, ran in by_worker.items()} == {
        7: [2, 0],
        8: [3],
    }


def test_a_clock_that_went_back_makes_no_negative_span(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="ok", began_at=9e9, ended_at=8e9))
        ledger.finish("ok", 0, {})
    with open_run(tmp_path, "last") as run:
        (span,) = read_spans(run, Clock(run))
    assert span.ended_at == span.begin > 1e9


def test_a_turn_that_runs_still_ends_now(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="running", began_at=101.0))
        ledger.flush()
        with open_run(tmp_path, "last") as run:
            (span,) = read_spans(run, Clock(run))
    assert span.state == "running"
    assert 0 <= span.ended_at < 60


def test_the_time_between_executions_is_left_out(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.finish("interrupted", 130, {})
    beginning = Beginning(["hmz-mp"], "fanout", ["tool/x:y"], "", {})
    with closing(Ledger.take_up(ledger.directory, beginning=beginning, oldest=4)) as ledger:
        ledger.put(turn(0, state="ok", submitted_at=1000.0, began_at=1010.0, ended_at=1030.0))
        again: dict[str, Any] = {"submitted_at": 9000.0, "began_at": 9001.0, "ended_at": 9002.0}
        ledger.put(turn(1, state="ok", execution=2, **again))
        ledger.finish("ok", 0, {})
    with closing(sqlite3.connect(ledger.directory / "run.db")) as connection:
        # The first was killed: its last turn is its last sign.
        change = "UPDATE executions SET started_at = ?, ended_at = ? WHERE execution = ?"
        connection.executemany(change, [(1000, None, 1), (9000, 9050, 2)])
        connection.execute("UPDATE runs SET started_at = 1000, ended_at = 9050")
        connection.commit()
    with open_run(tmp_path, "last") as run:
        clock = Clock(run)
        first, second = read_spans(run, clock)
    assert (clock.executions, clock.seconds) == (2, 80.0)
    assert (first.submitted_at, first.begin, first.ended_at) == (0.0, 10.0, 30.0)
    assert (second.submitted_at, second.begin, second.ended_at) == (30.0, 31.0, 32.0)


@pytest.mark.parametrize(
    ("times", "slots"),
    [
        ([], []),
        ([(0, 1), (1, 2)], [0, 0]),
        ([(0, 3), (1, 2), (2, 4), (3, 4)], [0, 1, 1, 0]),
        ([(0, 0), (0, 0)], [0, 0]),
    ],
)
def test_slots(times: list[tuple[float, float]], slots: list[int]) -> None:
    assert list(in_slots(times)) == slots


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20))), st.integers(0, 3))
def test_those_of_one_slot_never_overlap(drawn: list[tuple[int, int]], most: int) -> None:
    times = sorted((begin, begin + length) for begin, length in drawn)
    slots = list(in_slots(times, most))
    last: dict[int, float] = {}
    for (begin, end), slot in zip(times, slots, strict=True):
        if slot is None:
            assert sum(until > begin for until in last.values()) == most
            continue
        assert last.get(slot, 0) <= begin
        last[slot] = end
    assert most == 0 or all(slot is None or slot < most for slot in slots)
