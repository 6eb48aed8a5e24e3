import json
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs import database
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.schema import READABLE, TURN_COLUMNS, VERSION

from .support import new_ledger, turn

BEGINNING = Beginning(["hmz-mp", "exec", "--resume", "last"], "other", ["sh/cat"], "t", {"x": 1})


def ended_run(runs_dir: Path) -> Path:
    ledger = new_ledger(runs_dir)
    ledger.put(turn(0, state="ok", answer="one"))
    ledger.put(turn(1))
    ledger.finish("interrupted", 130, {})
    ledger.close()
    return ledger.directory


def take_up(directory: Path, oldest: int = VERSION) -> Ledger:
    return Ledger.take_up(directory, beginning=BEGINNING, oldest=oldest)


def change(directory: Path, *statements: str) -> None:
    with closing(sqlite3.connect(directory / "run.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def executions(directory: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / "run.db")) as connection:
        query = "SELECT execution, status, exit_code, pid FROM executions"
        return list(connection.execute(query))


def test_a_run_goes_on_in_its_own_ledger(tmp_path: Path) -> None:
    directory = ended_run(tmp_path)
    with closing(take_up(directory)) as ledger:
        assert (ledger.run_id, ledger.execution) == (directory.name, 2)
        with open_run(tmp_path, "last") as run:
            assert run.summary.status == "running"
        ledger.put(turn(1, state="ok", answer="two", execution=2))
        ledger.finish("ok", 0, {"ok": 2})
    with open_run(tmp_path, "last") as run:
        assert (run.summary.status, run.summary.exit_code) == ("ok", 0)
        assert (run.summary.flow, run.summary.options) == ("other", {"x": 1})
        assert run.summary.command[:2] == ("hmz-mp", "exec")
        assert "--resume" not in run.summary.command
        assert [one.answer for one in run.turns()] == ["one", "two"]
    mine = os.getpid()
    assert executions(directory) == [(1, "interrupted", 130, mine), (2, "ok", 0, mine)]


def test_of_many_that_take_it_up_one_gets_it(tmp_path: Path) -> None:
    directory = ended_run(tmp_path)
    barrier = threading.Barrier(4)
    got: list[Ledger | BadInput] = []

    def attempt() -> None:
        barrier.wait()
        try:
            got.append(take_up(directory))
        except BadInput as error:
            got.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [one for one in got if isinstance(one, Ledger)]
    for one in taken:
        one.close()
    assert len(taken) == 1
    refused = [str(one) for one in got if isinstance(one, BadInput)]
    assert all(f"is going on, in process {os.getpid()}" in one for one in refused)


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ((f"PRAGMA user_version = {VERSION + 1}",), "resume it with the hmz-mp that wrote it"),
        (("PRAGMA user_version = 3",), "--retry-failed can be used"),
        (("DELETE FROM runs",), "has nothing in its ledger"),
    ],
)
def test_what_cannot_go_on_is_said(tmp_path: Path, statements: tuple[str], said: str) -> None:
    directory = ended_run(tmp_path)
    change(directory, *statements)
    with pytest.raises(BadInput, match=said):
        take_up(directory)


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = ended_run(tmp_path)
    (directory / "run.db").write_bytes(b"nonsense" * 999)
    with pytest.raises(sqlite3.Error):
        take_up(directory)


LATER = {
    2: {"failure", "conversation", "input_tokens", "output_tokens", "cost_usd", "usage"},
    3: {"patch"},
    4: {"execution", "kept_as", "identity", "fingerprint"},
}


@pytest.mark.parametrize("version", READABLE)
def test_an_older_ledger_is_read_and_brought_up_to_date(tmp_path: Path, version: int) -> None:
    directory = ended_run(tmp_path)
    missing = [name for since, names in LATER.items() if since > version for name in names]
    tables = ["executions", "agents", "sessions", "events", "replaced"] if version < 4 else []
    tables += ["patches", "checkouts"] if version < 3 else []
    change(
        directory,
        *(f"DROP TABLE {table}" for table in tables),
        *(f"ALTER TABLE turns DROP COLUMN {name}" for name in missing),
        *(["ALTER TABLE runs DROP COLUMN state"] if version < 4 else []),
        "ALTER TABLE runs DROP COLUMN items",
        f"PRAGMA user_version = {version}",
    )
    with open_run(tmp_path, "last") as run:
        assert [one.answer for one in run.turns()] == ["one", None]
        assert run.turn(0).answer == "one"
        assert (run.state(), list(run.events()), run.costs().tokens) == ({}, [], 0)
    with closing(take_up(directory, oldest=1)) as ledger:
        assert ledger.execution == 2
        ledger.put(turn(1, state="ok", patch=b"p", identity="i", usage=""))
        ledger.say(1, 1.0, "log", "x")
        ledger.note("UPDATE runs SET items = 2")
        ledger.finish("ok", 0, {})
    with open_run(tmp_path, "last") as run:
        assert (run.summary.ledger_version, run.summary.items) == (VERSION, 2)
        first, second = run.turns()
        assert (first.answer, first.execution, second.patch) == ("one", 1, b"p")
        assert len(list(run.events())) == 1
    with closing(sqlite3.connect(directory / "run.db")) as connection:
        names = {name for _, name, *_ in connection.execute("PRAGMA table_info(turns)")}
    assert names == set(TURN_COLUMNS)


def test_what_is_noted_of_the_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "else")
    monkeypatch.setenv("LANG", "C.UTF-8")
    directory = ended_run(tmp_path)
    with closing(sqlite3.connect(directory / "run.db")) as connection:
        (text,) = connection.execute("SELECT environment FROM executions").fetchone()
    noted = json.loads(text)
    assert noted["directory"] == os.getcwd()
    assert noted["variables"]["LANG"] == "C.UTF-8"
    assert "SOMETHING" not in noted["variables"]


def test_who_is_killed_as_it_makes_a_ledger_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("killed here")

    monkeypatch.setattr(database, "_begin_execution", fail)
    ledger = new_ledger(tmp_path)
    assert ledger.error is not None
    assert not (ledger.directory / "run.db").exists()
    with pytest.raises(BadInput, match="there are no runs"):
        open_run(tmp_path, "last")
