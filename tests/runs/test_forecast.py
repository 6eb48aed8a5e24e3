from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.schema import DATABASE
from hmz_mp.runs.summaries import RunSummary

from .support import new_ledger, turn

BEGAN, NOW = 1000.0, 1100.0


def forecast(
    folder: Path, *states: str | tuple[str, float], items: int | None, **fields: Any
) -> RunSummary:
    """Return what is to come of a run with turns in these states, that ended when it is said."""
    with closing(new_ledger(folder)) as ledger:
        ledger.note("UPDATE runs SET items = ?", items)
        ledger.note("UPDATE executions SET started_at = ?", BEGAN)
        for number, given in enumerate(states):
            state, ended_at = given if isinstance(given, tuple) else (given, None)
            ledger.put(turn(number, state=state, ended_at=ended_at, **fields))
        ledger.flush()
        with RecordedRun(ledger.directory) as run:
            assert run.summary.total == len(states)
            return run.forecast(NOW)


def test_what_has_no_turn_yet_is_to_come(tmp_path: Path) -> None:
    found = forecast(tmp_path, ("ok", 1090.0), "running", "queued", items=10)
    assert (found.items, found.turns, found.total) == (10, 3, 10)
    assert found.seconds_left == pytest.approx(9 * 30)


def test_an_item_may_have_several_turns(tmp_path: Path) -> None:
    found = forecast(tmp_path, ("ok", 1090.0), "queued", items=3, item_id="a")
    assert found.total == 4


def test_a_flow_may_have_other_items_than_those_selected(tmp_path: Path) -> None:
    assert forecast(tmp_path, "queued", "queued", items=1).total == 2


def test_the_rate_is_that_of_late_or_else_of_the_whole_execution(tmp_path: Path) -> None:
    of_late = forecast(tmp_path / "a", ("ok", 1001.0), ("ok", 1080.0), ("ok", 1099.0), items=5)
    assert of_late.seconds_left == pytest.approx(2 * 15)
    long_ago = forecast(tmp_path / "b", ("ok", 900.0), ("ok", 1001.0), ("ok", 1050.0), items=5)
    assert long_ago.seconds_left == pytest.approx(2 * 50)
    before = forecast(tmp_path / "c", ("ok", 900.0), ("ok", 950.0), items=5)
    assert (before.total, before.seconds_left) == (5, None)


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path) -> None:
    found = forecast(tmp_path, ("ok", 1090.0), "queued", items=None)
    assert (found.items, found.total, found.seconds_left) == (None, 2, None)


def test_a_run_that_is_over_has_nothing_to_come(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.note("UPDATE runs SET items = 9")
        ledger.put(turn(0, state="ok"))
        ledger.finish("interrupted", 130, {})
        with RecordedRun(ledger.directory) as run:
            found = run.forecast(NOW)
    assert (found.items, found.total, found.seconds_left) == (9, 1, None)


def test_a_ledger_without_the_number_of_items_is_read(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, state="ok"))
        ledger.flush()
        with closing(sqlite3.connect(ledger.directory / DATABASE)) as connection:
            connection.execute("ALTER TABLE runs DROP COLUMN items")
        with RecordedRun(ledger.directory) as run:
            assert run.forecast(NOW) == run.summary
            assert run.summary.items is None
