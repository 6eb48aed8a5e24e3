import os
import random
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hmz_mp.core.ambient import TurnRecord, TurnState
from hmz_mp.runs import backlog, database
from hmz_mp.runs import ledger as module
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.masking import Masks
from hmz_mp.runs.schema import TURN_COLUMNS, VERSION

from .support import new_ledger, turn

STATES: list[TurnState] = ["queued", "running", "ok"]


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    return tmp_path / ".hmz-mp" / "runs"


def turns_of(ledger: Ledger) -> list[TurnRecord]:
    with open_run(ledger.directory.parent, ledger.run_id) as run:
        return list(run.turns())


def fields_of(record: TurnRecord) -> dict[str, object]:
    values = {name: getattr(record, name) for name in TurnRecord.__struct_fields__}
    del values["cancel"], values["tell"]
    return values


def test_every_field_of_a_turn_is_written() -> None:
    assert set(TurnRecord.__struct_fields__) - {"cancel", "tell"} == set(TURN_COLUMNS)


def test_a_turn_comes_back_whole(runs_dir: Path) -> None:
    record = turn(
        0,
        os.fsdecode(b"by\xff\nte.py"),
        path=b"by\xff\nte.py",
        cwd=os.fsdecode(b"/tmp/\xfe"),
        state="failed",
        answer="nul \0 and 🐍 and \ud800",
        error="e",
        error_type="ValueError",
        detail="Traceback",
        began_at=2.5,
        ended_at=3.75,
        seconds=1.25,
        attempts=2,
        worker=4242,
        output="printed\x1b[0m\n",
    )
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(record)
        plain = turn(1)
        ledger.put(plain)
    assert list(map(fields_of, turns_of(ledger))) == [fields_of(record), fields_of(plain)]


def test_the_database_is_what_the_design_says(runs_dir: Path) -> None:
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0, path=b"\xff.py"))
        ledger.finish("ok", 0, {"ok": 1})
    assert ledger.directory == runs_dir / ledger.run_id
    assert sorted(os.listdir(ledger.directory)) == ["run.db"]
    with closing(sqlite3.connect(ledger.directory / "run.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT path FROM turns").fetchone() == (b"\xff.py",)
        (counts,) = connection.execute("SELECT counts FROM runs").fetchone()
        assert counts == '{"ok": 1}'


def test_nothing_of_the_environment_is_written(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sesame-opens")
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0))
        ledger.finish("ok", 0, {})
    assert b"sesame-opens" not in (ledger.directory / "run.db").read_bytes()


def test_a_turn_is_written_as_it_is_by_then(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH_SECONDS", 3600)
    record = turn(1)
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0))
        ledger.flush()  # so that the next waits for others
        ledger.put(record)
        record.answer = "said"
        record.state = "ok"
        ledger.flush()
        record.state = "failed"  # nobody puts that
        _, kept = turns_of(ledger)
    assert (kept.state, kept.answer) == ("ok", "said")


def test_later_states_replace_earlier_ones(runs_dir: Path) -> None:
    record = turn(0)
    with closing(new_ledger(runs_dir)) as ledger:
        for state in STATES:
            record.state = state
            ledger.put(record)
            ledger.flush()
            assert [kept.state for kept in turns_of(ledger)] == [state]


def test_several_states_of_one_batch_are_one_row(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []
    real = database.write_records

    def counted(connection: sqlite3.Connection, rows: list[TurnRecord], masks: Masks) -> None:
        batches.append(len(rows))
        real(connection, rows, masks)

    monkeypatch.setattr(module, "write_records", counted)
    monkeypatch.setattr(backlog, "BATCH_SECONDS", 3600)
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0))
        ledger.flush()
        batches.clear()
        record = turn(1)
        for state in STATES:
            record.state = state
            ledger.put(record)
        ledger.flush()
    assert batches == [1]
    assert [kept.state for kept in turns_of(ledger)] == ["queued", "ok"]


def test_a_full_batch_is_written_without_anybody_waiting(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH_SECONDS", 3600)
    written = threading.Semaphore(0)
    committed = []

    def on_commit(puts: int) -> None:
        committed.append(puts)
        written.release()

    with closing(new_ledger(runs_dir, on_commit=on_commit)) as ledger:
        ledger.put(turn(0))
        assert written.acquire(timeout=30)  # the first is written at once
        full = backlog.BATCH_ROWS
        for number in range(1, full + 1):
            ledger.put(turn(number))
        assert written.acquire(timeout=30)
        ledger.put(turn(full + 1))
        assert committed == [1, full + 1]
    assert committed == [1, full + 1, full + 2]


def test_a_lone_turn_is_written_without_anybody_waiting(runs_dir: Path) -> None:
    written = threading.Semaphore(0)
    with closing(new_ledger(runs_dir, on_commit=lambda puts: written.release())) as ledger:
        for number in range(3):
            assert ledger.put(turn(number)) == number + 1
            assert written.acquire(timeout=30)
            assert len(turns_of(ledger)) == number + 1


def test_rows_of_any_number_are_all_written(runs_dir: Path) -> None:
    for many in (1, 2, 255, 256, 257, 1023):
        with closing(new_ledger(runs_dir)) as ledger:
            for number in range(many):
                ledger.put(turn(number, prompt="\udcff" if number == many // 2 else "x"))
        assert [record.number for record in turns_of(ledger)] == list(range(many))


def test_any_thread_may_put(runs_dir: Path) -> None:
    with closing(new_ledger(runs_dir)) as ledger:

        def put_some(first: int) -> None:
            for number in range(first, 4000, 4):
                ledger.put(turn(number))

        threads = [threading.Thread(target=put_some, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert ledger.flush()
        assert len(turns_of(ledger)) == 4000


def test_random_histories_end_as_the_last_put(runs_dir: Path) -> None:
    chance = random.Random(7)
    last = {}
    with closing(new_ledger(runs_dir)) as ledger:
        for step in range(3000):
            record = turn(chance.randrange(300), answer=str(step))
            last[record.number] = record.answer
            ledger.put(record)
            if chance.random() < 0.01:
                ledger.flush()
    assert {record.number: record.answer for record in turns_of(ledger)} == last


def test_the_end_is_written_once(runs_dir: Path) -> None:
    ledger = new_ledger(runs_dir)
    ledger.put(turn(0, state="ok"))
    ledger.finish("failed", 1, {"failed": 1})
    ledger.finish("ok", 0, {})
    ledger.close()
    ledger.close()
    ledger.finish("ok", 0, {})
    assert ledger.put(turn(1)) == 0
    assert ledger.flush()
    with open_run(runs_dir, "last") as run:
        assert (run.summary.status, run.summary.exit_code) == ("failed", 1)
        assert run.summary.turns == 1


def test_close_without_finish_leaves_no_end(runs_dir: Path) -> None:
    new_ledger(runs_dir).close()
    with closing(sqlite3.connect(next(runs_dir.glob("2*")) / "run.db")) as connection:
        assert connection.execute("SELECT ended_at, status FROM runs").fetchone() == (None, None)


def test_no_thread_or_descriptor_is_left(runs_dir: Path) -> None:
    threads, descriptors = threading.active_count(), psutil.Process().num_fds()
    ledger = new_ledger(runs_dir)
    ledger.put(turn(0))
    ledger.close()
    assert threading.active_count() == threads
    assert psutil.Process().num_fds() == descriptors


def test_repr_tells_the_truth(runs_dir: Path) -> None:
    ledger = new_ledger(runs_dir)
    name = ledger.run_id
    assert repr(ledger) == f"<Ledger {name} open, <Backlog 0 of 0 written>>"
    ledger.put(turn(0))
    ledger.close()
    assert repr(ledger) == f"<Ledger {name} closed, <Backlog 1 of 1 written>>"


def test_a_directory_that_cannot_be_made_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / ".hmz-mp").write_text("a file is in the way")
    told: list[str] = []
    ledger = new_ledger(tmp_path / ".hmz-mp" / "runs", on_error=told.append)
    assert ledger.error is not None
    assert told == [ledger.error]
    assert "Not a directory" in ledger.error or "File exists" in ledger.error
    assert "broken" in repr(ledger)
    ledger.put(turn(0))
    ledger.finish("ok", 0, {})
    assert not ledger.flush()
    ledger.close()
    assert len(told) == 1


def test_a_database_that_cannot_be_made_does_not_stop_the_run(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(module, "new_database", refuse)
    ledger = new_ledger(runs_dir)
    assert str(ledger.error).endswith("unable to open database file")
    ledger.close()


def test_a_database_that_fails_half_made_is_closed(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "create_statements", lambda: ("CREATE NONSENSE",))
    before = psutil.Process().num_fds()
    ledger = new_ledger(runs_dir)
    assert "syntax error" in str(ledger.error)
    assert psutil.Process().num_fds() == before


def test_a_full_disk_is_said_once_and_the_run_goes_on(runs_dir: Path) -> None:
    told: list[str] = []
    ledger = new_ledger(runs_dir, on_error=told.append)
    connection = ledger._connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    ledger.put(turn(0, answer="x" * 1_000_000))
    assert not ledger.flush()
    for number in range(1000):
        ledger.put(turn(number))
    ledger.finish("ok", 0, {})
    ledger.close()
    assert len(told) == 1
    assert told[0].startswith(f"the run is not being recorded in '{ledger.directory}': ")
    assert "full" in told[0]
    assert "hmz-mp-ledger" not in [thread.name for thread in threading.enumerate()]


def test_a_value_that_cannot_be_stored_does_not_stop_the_run(runs_dir: Path) -> None:
    ledger = new_ledger(runs_dir)
    ledger.put(turn(0, worker=1 << 70))
    assert not ledger.flush()
    assert ledger.error is not None
    ledger.close()


def test_options_that_json_does_not_know_are_written_as_text(runs_dir: Path) -> None:
    options = {"path": Path("x"), "kinds": {"a"}, "odd": "\udcff", "pair": (1, 2)}
    Ledger.create(
        runs_dir, command=["\udcff"], flow="f", agents=[], task="\udcff", options=options
    ).close()
    with open_run(runs_dir, "last") as run:
        expected = {"path": "x", "kinds": ["a"], "odd": "\udcff", "pair": [1, 2]}
        assert run.summary.options == expected
        assert run.summary.command == ("\udcff",)
        assert run.summary.task == "\udcff"


PROGRAM = """
import os, signal, sys
from pathlib import Path
from tests.runs.support import new_ledger, turn

ledger = new_ledger(Path(sys.argv[1]))
for number in range(1000):
    ledger.put(turn(number, state="ok"))
{ending}
"""


def run_program(runs_dir: Path, ending: str) -> subprocess.CompletedProcess[bytes]:
    code = PROGRAM.format(ending=textwrap.dedent(ending))
    command = [sys.executable, "-c", code, str(runs_dir)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, timeout=50, check=False, capture_output=True)


def test_what_was_committed_survives_a_kill(runs_dir: Path) -> None:
    ending = """
    ledger.put(turn(1000, state="running"))
    ledger.put(turn(1001))
    ledger.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run_program(runs_dir, ending).returncode == -9
    with open_run(runs_dir, "last") as run:
        assert run.summary.status == "interrupted"
        assert run.summary.counts == {"ok": 1000, "cancelled": 1, "not_run": 1}
        *_, running, queued = run.turns()
        assert (running.state, running.error) == (
            "cancelled",
            "the run ended before this turn was done",
        )
        assert (queued.state, queued.error) == (
            "not_run",
            "the run ended before this turn began",
        )


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise ValueError"])
def test_a_program_that_forgets_to_close_loses_nothing(runs_dir: Path, ending: str) -> None:
    done = run_program(runs_dir, ending)
    assert (b"ValueError" in done.stderr) == ("ValueError" in ending)
    with open_run(runs_dir, "last") as run:
        assert run.summary.counts == {"ok": 1000}


def test_a_put_costs_the_caller_microseconds(runs_dir: Path) -> None:
    records = [turn(number) for number in range(20_000)]
    with closing(new_ledger(runs_dir)) as ledger:
        began = time.perf_counter()
        for record in records:
            ledger.put(record)
        spent = time.perf_counter() - began
    assert spent / len(records) < 50e-6  # about one microsecond on an idle machine
