import sqlite3
from contextlib import closing
from pathlib import Path

from hmz_mp.watching.snapshot import look

from ..report.runs import NASTY
from ..runs.support import new_ledger, turn
from .runs import going_on


def test_how_a_run_stands(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        found = look(ledger.directory)
    assert (found.status, found.is_over, found.run_id) == ("running", False, ledger.run_id)
    (agent,) = found.agents
    assert (agent.agent, agent.ended, agent.total) == ("tool/x:y", 2, 5)
    assert [(one.session, one.number, one.item_id) for one in found.working] == [
        ("s0", 0, "a.py"),
        ("s1", 1, "b.py"),
    ]
    (failed,) = found.failed
    assert (failed.item_id, failed.reason) == ("d.py", f"ValueError: {NASTY}")
    assert (found.failed_count, found.tokens, found.cost_usd) == (1, 9, 0.25)
    assert (found.at_once, found.last_session) == (4, "s3")
    assert (found.ended, found.total, found.count("queued")) == (2, 5, 1)


def test_how_many_turns_are_to_come(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        ledger.note("UPDATE runs SET items = 9")
        ledger.flush()
        found = look(ledger.directory)
        ledger.finish("interrupted", 130, {})
    assert (found.ended, found.total) == (2, 9)
    assert found.seconds_left is not None
    assert found.seconds_left > 0
    over = look(ledger.directory)
    assert (over.total, over.seconds_left) == (5, None)


def test_of_a_run_that_was_cut_short_nothing_works(tmp_path: Path) -> None:
    with going_on(tmp_path) as ledger:
        ledger.finish("interrupted", 130, {})
    found = look(ledger.directory)
    assert (found.is_over, found.working) == (True, ())
    assert found.failed_count == 3
    assert {one.item_id: one.reason for one in found.failed}["a.py"] == "cut short"
    assert found.ended == found.total == 5


def test_agents_without_turns_are_there(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, agent="other"))
        ledger.flush()
        found = look(ledger.directory)
    assert [(one.agent, one.total) for one in found.agents] == [("tool/x:y", 0), ("other", 1)]
    assert found.last_session is None


def test_a_ledger_of_the_first_version(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.put(turn(0, "\udcff", state="failed", error="no", began_at=100.0))
        ledger.finish("failed", 1, {})
    with closing(sqlite3.connect(ledger.directory / "run.db")) as connection:
        for column in ("input_tokens", "output_tokens", "cost_usd", "usage"):
            connection.execute(f"ALTER TABLE turns DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    found = look(ledger.directory)
    assert (found.tokens, found.cost_usd) == (0, 0.0)
    assert found.failed[0].item_id == "\udcff"
