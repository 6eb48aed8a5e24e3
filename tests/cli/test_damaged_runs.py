"""Every view of a run that was killed, goes on, is damaged, or was written by an older version."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory

from ..report.runs import NASTY, NASTY_SHOWN, write_run
from ..runs.support import new_ledger, turn
from .support import hmz_mp

VIEWS = ["runs", "show last", "report last -o -", "trace last -o -", "export last"]
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.runs.support import new_ledger, turn
ledger = new_ledger(Path(sys.argv[1]))
ran = {"state": "ok", "answer": "x" * 3000, "began_at": 200.0, "ended_at": 201.0, "worker": 7}
for number in range(50):
    ledger.put(turn(number, **ran))
    if number == 25:
        ledger.flush()
ledger.put(turn(50, state="running", began_at=200.0, worker=7))
ledger.put(turn(51))
ledger.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def runs_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return runs_directory(tmp_path)


def view(words: str) -> str:
    done = hmz_mp(*words.split())
    assert done.exit_code == 0, done
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output
    return done.stdout


def killed(runs_dir: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(runs_dir)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], timeout=50)
    assert done.returncode == -signal.SIGKILL


def database(runs_dir: Path) -> Path:
    (file,) = runs_dir.glob("*/run.db")
    return file


def cut_short(runs_dir: Path) -> None:
    write_run(runs_dir, 900)
    with database(runs_dir).open("r+b") as file:
        file.truncate(database(runs_dir).stat().st_size * 2 // 3)


def log_cut_short(runs_dir: Path) -> None:
    killed(runs_dir)
    log = database(runs_dir).with_name("run.db-wal")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5000)


def shared_memory_gone(runs_dir: Path) -> None:
    killed(runs_dir)
    database(runs_dir).with_name("run.db-shm").unlink()


def of_version_1(runs_dir: Path) -> None:
    write_run(runs_dir)
    with closing(sqlite3.connect(database(runs_dir))) as connection:
        for column in ("input_tokens", "output_tokens", "cost_usd", "usage", "patch"):
            connection.execute(f"ALTER TABLE turns DROP COLUMN {column}")
        for table in ("patches", "checkouts"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


@pytest.mark.parametrize(
    "happened", [killed, cut_short, log_cut_short, shared_memory_gone, of_version_1]
)
def test_every_view_shows_what_there_is(runs_dir: Path, happened: Callable[[Path], None]) -> None:
    happened(runs_dir)
    for words in VIEWS:
        assert view(words)
    rows = [json.loads(line) for line in view("export last").splitlines()]
    assert len(rows) >= 5
    if happened is killed:
        assert [rows[-2]["status"], rows[-1]["status"]] == ["failed", "not_run"]
        assert "interrupted" in view("show last")
    if happened is cut_short:
        assert "the ledger is damaged: " in view("show last")
        assert "the ledger is damaged: " in view("report last -o -")
        assert "the ledger is damaged: " in hmz_mp("export", "last").stderr
        assert 300 < len(rows) < 900


@contextmanager
def going_on(runs_dir: Path) -> Iterator[None]:
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0, NASTY, state="running", began_at=200.0, worker=7))
        ledger.put(turn(1))
        ledger.flush()
        yield


def test_every_view_of_a_run_that_goes_on(runs_dir: Path) -> None:
    with going_on(runs_dir):
        for words in VIEWS:
            assert "running" in view(words)


def test_every_view_of_what_is_nasty(runs_dir: Path) -> None:
    write_run(runs_dir)
    shown = {words: view(words) for words in [*VIEWS, "show last --json", "export last --csv"][:-1]}
    assert NASTY_SHOWN in shown["show last"]
    assert "x&lt;img src=x onerror=alert(1)&gt;\\x1b[2J.py" in shown["report last -o -"]
    assert json.loads(shown["export last"].splitlines()[0])["item_id"] == NASTY
    assert json.loads(shown["show last --json"])["items"][0]["item_id"] == NASTY
    of_item = hmz_mp("show", "last", NASTY)
    assert (of_item.exit_code, "\x1b" in of_item.output) == (0, False)
    with closing(sqlite3.connect(database(runs_dir))) as connection:
        query = "SELECT item_id FROM turns WHERE number = 0"
        assert connection.execute(query).fetchone() == (NASTY,)
