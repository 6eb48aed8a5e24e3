import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs.finding import list_runs, open_run
from hmz_mp.runs.schema import replace_statements

from .support import new_ledger, turn


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    return tmp_path / "odd # ? % dir\udcff" / ".hmz-mp" / "runs"


def finished_run(runs_dir: Path, status: str = "ok") -> str:
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0, state="ok", seconds=1.0))
        ledger.put(turn(1, state="failed", error="no", seconds=3.0))
        ledger.put(turn(2, "file0.py", state="ok", seconds=2.0))
        ledger.put(turn(3, "\udcff", state="not_run"))
        ledger.finish(status, 1, {})
    return ledger.run_id


def change(runs_dir: Path, run_id: str, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(runs_dir / run_id / "run.db")) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_no_runs_at_all(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "absent") == []
    with pytest.raises(BadInput, match="there are no runs in"):
        open_run(tmp_path / "absent", "last")


def test_runs_are_listed_newest_first(runs_dir: Path) -> None:
    ids = [finished_run(runs_dir, f"status{number}") for number in range(3)]
    (runs_dir / "not-a-run").mkdir()
    (runs_dir / "a-file").touch()
    found = list_runs(runs_dir)
    assert [run.run_id for run in found] == ids[::-1]
    assert [run.status for run in found] == ["status2", "status1", "status0"]


def test_a_summary_tells_all_of_a_run(runs_dir: Path) -> None:
    run_id = finished_run(runs_dir)
    (run,) = list_runs(runs_dir)
    assert (run.run_id, run.directory) == (run_id, runs_dir / run_id)
    assert run.counts == {"ok": 2, "failed": 1, "not_run": 1}
    assert (run.turns, run.exit_code, run.problem) == (4, 1, None)
    assert (run.flow, run.task, run.agents) == ("fanout", "outline", ("tool/x:y",))
    assert run.command == ("hmz-mp", "exec", "-a", "tool/x:y")
    assert run.options == {"at_once": 4}
    assert run.ended_at is not None
    assert run.ended_at >= run.started_at > 1e9


def test_turns_come_in_order_and_can_be_chosen(runs_dir: Path) -> None:
    finished_run(runs_dir)
    with open_run(runs_dir, "last") as run:
        assert [one.number for one in run.turns()] == [0, 1, 2, 3]
        assert [one.number for one in run.turns("file0.py")] == [0, 2]
        assert [one.number for one in run.turns("\udcff")] == [3]
        assert [one.number for one in run.turns("absent")] == []
        assert [one.number for one in run.turns(state="failed")] == [1]
        assert [one.number for one in run.turns("file0.py", state="failed")] == []
        assert [one.number for one in run.slowest(2)] == [1, 2]
        assert [one.number for one in run.slowest(9)] == [1, 2, 0]
        assert list(run.item_ids()) == ["file0.py", "file1.py", "\udcff"]
        assert repr(run) == f"<RecordedRun {run.summary.run_id} ok>"
        run.close()


def test_a_run_is_found_by_id_by_its_beginning_or_as_last(runs_dir: Path) -> None:
    first, second = finished_run(runs_dir), finished_run(runs_dir)
    os.rename(runs_dir / first, runs_dir / "20240101-aa")
    for asked in ("20240101-aa", "20240101-a", "2024"):
        with open_run(runs_dir, asked) as run:
            assert run.directory.name == "20240101-aa"
    for asked in (second, "last"):
        with open_run(runs_dir, asked) as run:
            assert run.summary.run_id == second


def test_an_id_that_begins_another_is_still_that_one(runs_dir: Path) -> None:
    first, second = finished_run(runs_dir), finished_run(runs_dir)
    os.rename(runs_dir / second, runs_dir / f"{first}0")
    with open_run(runs_dir, first) as run:
        assert run.directory.name == first


@pytest.mark.parametrize("asked", ["nosuch", "", "../x", "x\0"])
def test_an_unknown_run_lists_those_there_are(runs_dir: Path, asked: str) -> None:
    ids = [finished_run(runs_dir) for _ in range(12)]
    with pytest.raises(BadInput) as caught:
        open_run(runs_dir, asked)
    said = str(caught.value)
    assert said == f"there is no run {asked!r}; there are: {', '.join(ids[:1:-1])} and 2 more"


def test_an_ambiguous_beginning_lists_what_it_fits(runs_dir: Path) -> None:
    ids = [finished_run(runs_dir) for _ in range(2)]
    with pytest.raises(BadInput) as caught:
        open_run(runs_dir, "20")
    assert str(caught.value) == f"'20' is the beginning of 2 runs; there are: {ids[1]}, {ids[0]}"


def test_a_run_in_progress_is_running_and_reads_as_it_is(runs_dir: Path) -> None:
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0))
        ledger.put(turn(1, state="running"))
        ledger.flush()
        with open_run(runs_dir, "last") as run:
            assert (run.summary.status, run.summary.ended_at) == ("running", None)
            assert run.summary.counts == {"queued": 1, "running": 1}
            assert [one.state for one in run.turns()] == ["queued", "running"]
            ledger.put(turn(2))
            ledger.flush()
            assert len(list(run.turns())) == 3


def test_a_run_whose_process_is_gone_was_interrupted(runs_dir: Path) -> None:
    with closing(new_ledger(runs_dir)) as ledger:
        ledger.put(turn(0, state="ok", submitted_at=5e9, began_at=6e9, ended_at=7e9))
        ledger.put(turn(1, submitted_at=6.5e9))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    change(runs_dir, ledger.run_id, "UPDATE runs SET pid = ?", gone.pid)
    (run,) = list_runs(runs_dir)
    assert (run.status, run.ended_at, run.exit_code) == ("interrupted", 7e9, None)
    assert run.counts == {"ok": 1, "not_run": 1}


def test_a_run_that_ended_before_any_turn(runs_dir: Path) -> None:
    new_ledger(runs_dir).close()
    change(runs_dir, next(runs_dir.glob("2*")).name, "UPDATE runs SET process_started = 5")
    (run,) = list_runs(runs_dir)
    assert (run.status, run.ended_at, run.counts) == ("interrupted", run.started_at, {})


def test_another_process_of_the_same_pid_is_not_the_run(runs_dir: Path) -> None:
    new_ledger(runs_dir).close()
    run_id = next(runs_dir.glob("2*")).name
    assert list_runs(runs_dir)[0].status == "running"  # this process is alive, and wrote no end
    change(runs_dir, run_id, "UPDATE runs SET process_started = process_started - 60")
    assert list_runs(runs_dir)[0].status == "interrupted"


def test_a_zombie_does_not_run_anything(runs_dir: Path) -> None:
    new_ledger(runs_dir).close()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = psutil.Process(child.pid).create_time()
        statement = "UPDATE runs SET pid = ?, process_started = ?"
        change(runs_dir, next(runs_dir.glob("2*")).name, statement, child.pid, started)
        alive = list_runs(runs_dir)[0].status
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = list_runs(runs_dir)[0].status
    assert (alive, ended) == ("running", "interrupted")


def test_a_process_that_may_not_be_looked_at_is_alive(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_ledger(runs_dir).close()

    def refuse(pid: int) -> None:
        raise psutil.AccessDenied(pid)

    monkeypatch.setattr("psutil.Process", refuse)
    assert list_runs(runs_dir)[0].status == "running"


LATER = ["patch", "failure", "conversation", "input_tokens", "output_tokens", "cost_usd", "usage"]


def test_a_ledger_of_the_first_version_is_read(runs_dir: Path) -> None:
    run_id = finished_run(runs_dir)
    for statement in (
        "DROP TABLE patches",
        "DROP TABLE checkouts",
        *(f"ALTER TABLE turns DROP COLUMN {name}" for name in LATER),
        "PRAGMA user_version = 1",
    ):
        change(runs_dir, run_id, statement)
    with open_run(runs_dir, run_id) as run:
        assert run.summary.ledger_version == 1
        assert all(turn.patch is None for turn in run.turns())
        assert run.patches() == {}


def test_a_ledger_of_another_version_is_said_and_does_not_hide_others(runs_dir: Path) -> None:
    old, new = finished_run(runs_dir), finished_run(runs_dir)
    change(runs_dir, new, "PRAGMA user_version = 99")
    first, second = list_runs(runs_dir)
    assert (first.run_id, first.status, second.run_id) == (new, "unreadable", old)
    assert "is of version 99, and this hmz-mp reads versions up to 4" in str(first.problem)
    with pytest.raises(BadInput, match="version 99"):
        open_run(runs_dir, "last")


def test_what_is_no_ledger_is_unreadable(runs_dir: Path) -> None:
    finished_run(runs_dir)
    for name, content in {"3a": b"", "3b": b"nonsense" * 999}.items():
        (runs_dir / name).mkdir()
        (runs_dir / name / "run.db").write_bytes(content)
    problems = [run.problem for run in list_runs(runs_dir)]
    assert "file is not a database" in str(problems[0])
    assert "has nothing in it yet" in str(problems[1])
    assert problems[2] is None


def test_a_ledger_without_its_run_is_unreadable(runs_dir: Path) -> None:
    change(runs_dir, finished_run(runs_dir), "DELETE FROM runs")
    with pytest.raises(BadInput, match="has nothing in it"):
        open_run(runs_dir, "last")


def test_a_damaged_ledger_is_bad_input_when_its_turns_are_read(runs_dir: Path) -> None:
    run_id = finished_run(runs_dir)
    with open_run(runs_dir, "last") as run:
        change(runs_dir, run_id, "DROP TABLE turns")
        with pytest.raises(BadInput, match="cannot be read: no such table: turns"):
            list(run.turns())


def test_a_directory_where_nothing_may_be_written_can_be_read(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hmz_mp.runs import opening

    finished_run(runs_dir)
    real = opening._opened

    def only_immutable(path: Path, mode: str) -> tuple[sqlite3.Connection, sqlite3.Error | None]:
        if mode != "immutable=1":
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, mode)

    monkeypatch.setattr(opening, "_opened", only_immutable)
    with open_run(runs_dir, "last") as run:
        assert len(list(run.turns())) == 4


def test_no_descriptor_is_left(runs_dir: Path) -> None:
    finished_run(runs_dir)
    before = psutil.Process().num_fds()
    list_runs(runs_dir)
    with open_run(runs_dir, "last") as run:
        list(run.turns())
    with pytest.raises(BadInput):
        open_run(runs_dir, "nosuch")
    assert psutil.Process().num_fds() == before


def test_the_number_of_a_turn_that_was_taken_out_is_not_given_again(runs_dir: Path) -> None:
    with closing(new_ledger(runs_dir)) as ledger:
        with open_run(runs_dir, "last") as run:
            assert run.next_number() == 0
        ledger.put(turn(0, state="ok"))
        ledger.put(turn(1, state="failed"))
        for statement in replace_statements():
            ledger.note(statement, 1)
    with open_run(runs_dir, "last") as run:
        assert [one.number for one in run.turns()] == [0]
        assert run.next_number() == 2
