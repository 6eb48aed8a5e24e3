from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.schema import DATABASE
from hmz_mp.watching.changes import RunBegins, RunEnds, TurnChanges, changes

from ..report.runs import PATCH, USAGE, ran
from ..runs.support import new_ledger, turn


def stepping(*steps: Callable[[], object]) -> Callable[[float], None]:
    """Do one more step at each wait; one wait too many fails."""
    left = iter(steps)

    def wait(seconds: float) -> None:
        assert seconds >= 0.1
        next(left, lambda: pytest.fail("it waits for a run that is over"))()

    return wait


def told(found: Iterator[RunBegins | TurnChanges | RunEnds]) -> list[str]:
    """Return the changes in a word or two each."""
    words = []
    for one in found:
        match one:
            case TurnChanges(turn):
                words.append(f"{turn.number} {turn.state}")
            case RunBegins() | RunEnds():
                words.append(f"{type(one).__name__} {one.summary.status}")
    return words


def put(ledger: Ledger, *states: str, **fields: Any) -> Callable[[], None]:
    """Return what writes turns down in these states; ``-`` leaves one as it is."""

    def write() -> None:
        for number, state in enumerate(states):
            if state != "-":
                ledger.put(turn(number, state=state, **fields))
        ledger.flush()

    return write


def test_each_change_is_told_once_until_the_end(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "running", "queued")()
        wait = stepping(
            lambda: None,
            put(ledger, "-", "-", "running"),
            lambda: None,
            put(ledger, "-", "ok", "failed", "running"),
            put(ledger, "-", "-", "-", "-", "queued"),
            put(ledger, "-", "-", "-", "ok", "ok"),
            lambda: ledger.finish("failed", 1, {}),
        )
        found = told(changes(ledger.directory, wait))
    begin = ["RunBegins running", "0 ok", "1 running", "2 queued"]
    assert found[:4] == begin
    assert found[4:] == [
        *("2 running", "1 ok", "2 failed", "3 running", "4 queued", "3 ok", "4 ok"),
        "RunEnds failed",
    ]


def test_the_counts_are_of_the_turns_that_follow(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "ok", "running", usage=USAGE)()
        first, *_ = found = list(
            changes(ledger.directory, stepping(lambda: ledger.finish("ok", 0, {})))
        )
    assert isinstance(first, RunBegins)
    assert first.summary.counts == {"ok": 2, "running": 1}
    assert [one.input_tokens for one in first.models] == [2700]
    last = found[-1]
    assert isinstance(last, RunEnds)
    assert last.summary.counts == {"ok": 2, "cancelled": 1}
    assert not last.was_killed


def test_another_attempt_is_a_change(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "running", attempts=1)()
        wait = stepping(
            put(ledger, "running", attempts=1),
            put(ledger, "running", attempts=2),
            put(ledger, "waiting", attempts=2),
            lambda: ledger.finish("ok", 0, {}),
        )
        found = told(changes(ledger.directory, wait))
    assert found[1:-1] == ["0 running", "0 running", "0 waiting", "0 not_run"]


def test_a_run_that_is_over_is_told_at_once(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(200):
            ledger.put(ran(number))
        ledger.finish("ok", 0, {})
    found = told(changes(ledger.directory, stepping()))
    assert found == ["RunBegins ok", *(f"{number} ok" for number in range(200)), "RunEnds ok"]


def test_a_killed_run_ends(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "running", "queued")()

        def kill() -> None:
            # To its readers: as if its process had another start.
            ledger.note("UPDATE runs SET process_started = 1.0")
            ledger.flush()

        found = list(changes(ledger.directory, stepping(kill)))
    assert told(iter(found[4:])) == ["1 cancelled", "2 not_run", "RunEnds interrupted"]
    last = found[-1]
    assert isinstance(last, RunEnds)
    assert last.was_killed


def test_a_run_that_is_resumed_goes_on(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "failed", "running")()

        def resume() -> None:
            ledger.note(
                "INSERT INTO executions SELECT 2, 9.0, NULL, NULL, NULL, pid, version, command, "
                "'{}' FROM runs"
            )
            put(ledger, "-", "queued", "queued", execution=2)()

        wait = stepping(
            resume,
            put(ledger, "-", "ok", "ok", execution=2),
            lambda: ledger.finish("ok", 0, {}),
        )
        found = told(changes(ledger.directory, wait))
    assert found[4:] == ["1 queued", "2 queued", "1 ok", "2 ok", "RunEnds ok"]


def test_what_is_not_in_the_checkout_is_told_again_at_the_end(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "ok", patch=PATCH)()
        ledger.note("INSERT INTO patches VALUES (0, 'applied', NULL, NULL, NULL)")
        ledger.flush()
        found = list(changes(ledger.directory, stepping(lambda: ledger.finish("ok", 0, {}))))
    assert [one.turn.number for one in found if isinstance(one, TurnChanges)] == [0, 1, 1]
    again = found[3]
    assert isinstance(again, TurnChanges)
    assert again.patch is not None
    assert again.patch.problem == "its patch is not applied yet"


def test_what_ended_is_not_looked_at_again(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "ok", "running")()

        def meddle() -> None:
            ledger.note("UPDATE turns SET state = 'failed' WHERE number = 0")
            ledger.flush()

        wait = stepping(meddle, lambda: ledger.finish("ok", 0, {}))
        found = told(changes(ledger.directory, wait))
    assert "0 failed" not in found


def test_what_ended_and_is_tried_again_is_told(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "failed", "ok", "failed", attempts=1)()
        wait = stepping(
            put(ledger, "running", attempts=2),
            put(ledger, "-", "-", "-", "running", attempts=1),
            put(ledger, "failed", attempts=2),
            put(ledger, "-", "-", "ok", "ok", attempts=3),
            lambda: ledger.finish("failed", 1, {}),
        )
        found = told(changes(ledger.directory, wait))
    assert found[1:4] == ["0 failed", "1 ok", "2 failed"]
    assert found[4:-1] == ["0 running", "3 running", "0 failed", "2 ok", "3 ok"]


def test_looking_costs_a_tenth_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = count(step=10.0)
    waited: list[float] = []
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "running")()
        monkeypatch.setattr("hmz_mp.watching.changes.time.perf_counter", lambda: next(now))

        def wait(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                ledger.finish("ok", 0, {})

        told(changes(ledger.directory, wait))
    assert waited == [0.1, 90.0, 90.0]


def test_ledgers_of_the_first_version(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        put(ledger, "ok", "failed")()
        ledger.finish("failed", 1, {})
    with closing(sqlite3.connect(ledger.directory / DATABASE)) as connection:
        for column in ("execution", "usage"):
            connection.execute(f"ALTER TABLE turns DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    found = told(changes(ledger.directory, stepping()))
    assert found == ["RunBegins failed", "0 ok", "1 failed", "RunEnds failed"]


def test_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"nonsense" * 999)
    with pytest.raises(BadInput, match="not a database"):
        told(changes(tmp_path, stepping()))


def test_a_ledger_that_is_damaged_meanwhile_does_not_hang(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        for number in range(300):
            ledger.put(ran(number, answer="x" * 3000))
        ledger.put(turn(300, state="running"))
        ledger.flush()

        def damage() -> None:
            ledger.finish("ok", 0, {})
            ledger.close()
            path = ledger.directory / DATABASE
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            path.write_bytes(path.read_bytes()[:200_000])

        found = list(changes(ledger.directory, stepping(damage)))
    last = found[-1]
    assert isinstance(last, RunEnds)
    assert last.summary.problem is not None
    assert "damaged" in last.summary.problem
