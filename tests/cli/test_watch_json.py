"""``hmz-mp watch --json``: on a pipe, while a run goes on, and after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.cli import watch
from hmz_mp.runs import runs_directory
from tests.cli.processes import SECONDS, Project
from tests.watching.runs import going_on

from .support import ODD_ITEM, hmz_mp, write_run

FIELDS = {
    *("type", "number", "item_id", "status", "answer", "error", "seconds", "attempts", "worker"),
    *("usage", "agent", "session", "place", "submitted_at", "began_at", "ended_at"),
}


@contextmanager
def hanging(project: Project, count: int = 3) -> Iterator[subprocess.Popen[bytes]]:
    """Give a run whose turns hang until there is a file ``go``."""
    (project.root / "running").mkdir()
    project.files(*(f"{number}.py" for number in range(count)))
    tool = ("-a", project.tool("hangs"), "--include", "*.py", "--at-once", "2")
    process = project.start("exec", *tool, "--quiet")
    with process:
        try:
            project.await_running(2)
            yield process
        finally:
            project.files("go")
            if process.poll() is None:
                process.communicate(timeout=SECONDS)


@contextmanager
def watching(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    with project.start("watch", "--json") as process:
        try:
            yield process
        finally:
            process.kill()


def await_object(process: subprocess.Popen[bytes], **fields: Any) -> dict[str, Any]:
    """Read lines until one says so."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if fields.items() <= found.items():
            return found
    raise AssertionError(f"nothing says {fields}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_that_is_over(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "find_spec", lambda name: None)  # textual is not needed
    run_id = write_run(here)
    done = hmz_mp("watch", run_id[:-1], "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    run, *turns, end = map(json.loads, done.stdout.splitlines())
    (listed,) = map(json.loads, hmz_mp("runs", "--json").stdout.splitlines())
    assert run == {"type": "run", **listed, "usage": []}
    shown = json.loads(hmz_mp("show", "last", "--json").stdout)["items"]
    assert [{name: turn[name] for name in shown[0]} for turn in turns] == shown
    assert [turn["number"] for turn in turns] == list(range(5))
    assert all(set(turn) == FIELDS for turn in turns)
    assert turns[2]["item_id"] == ODD_ITEM
    assert turns[0]["ended_at"] == "2001-09-09T01:46:43.500000+00:00"
    same = ("run_id", "status", "exit_code", "ended_at", "seconds", "counts", "problem", "usage")
    assert end == {"type": "end"} | {name: run[name] for name in same}
    assert (end["status"], end["exit_code"], end["counts"]["ok"]) == ("failed", 1, 3)
    assert done.stdout.isascii()


def test_no_such_run(here: Path) -> None:
    done = hmz_mp("watch", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there are no runs" in done.stderr
    write_run(here)
    done = hmz_mp("watch", "nope", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no run 'nope'" in done.stderr


def test_a_ledger_that_is_none(here: Path) -> None:
    run_id = write_run(here)
    (runs_directory(here) / run_id / "run.db").write_bytes(b"nonsense" * 999)
    done = hmz_mp("watch", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot be read" in done.stderr


def test_a_run_as_it_goes_on_and_its_end(project: Project) -> None:
    with hanging(project), watching(project) as process:
        run = await_object(process, type="run")
        assert run["status"] == "running"
        assert run["counts"] | {"running": 2, "queued": 1} == run["counts"]
        running = await_object(process, item_id="0.py", status="running")
        assert isinstance(running["worker"], int)
        await_object(process, item_id="2.py", status="queued")
        project.files("go")
        ended = await_object(process, item_id="2.py", status="ok")
        assert (ended["answer"], ended["attempts"], ended["error"]) == ("2.py", 1, None)
        end = await_object(process, type="end")
        assert (end["status"], end["exit_code"], end["counts"]["ok"]) == ("ok", 0, 3)
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, out, err) == (0, b"", b"")


def test_ctrl_c(project: Project) -> None:
    with going_on(runs_directory(project.root)), watching(project) as process:
        await_object(process, type="run")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, b"hmz-mp: interrupted\n")


def test_a_reader_that_goes_away_ends_it_though_nothing_happens(project: Project) -> None:
    with going_on(runs_directory(project.root)), watching(project) as process:
        await_object(process, status="queued")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(SECONDS) == 141
        assert process.stderr.read() == b""


def test_ctrl_c_while_nobody_reads(project: Project) -> None:
    answer = "x" * 300_000
    with going_on(runs_directory(project.root), answer=answer), watching(project) as process:
        await_object(process, type="run")  # what follows does not fit into the pipe
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130


def test_a_run_that_is_killed_is_said_to_be(project: Project) -> None:
    with hanging(project) as run, watching(project) as process:
        await_object(process, item_id="0.py", status="running")
        os.kill(run.pid, signal.SIGKILL)
        run.wait(SECONDS)
        stopped = await_object(process, item_id="0.py", status="failed")
        assert stopped["error"] == "the run ended before this turn was done"
        await_object(process, item_id="2.py", status="not_run")
        end = await_object(process, type="end")
        assert (end["status"], end["exit_code"]) == ("interrupted", None)
        assert end["problem"] == "its process is gone, and has written no end"
        assert process.wait(SECONDS) == 0


def test_standard_output_that_is_closed(project: Project) -> None:
    write_run(project.root)
    process = project.start(
        "watch", "--json", before=["sh", "-c", 'exec "$@" >&-', "sh"], stdout=None
    )
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert b"--json: standard output is closed" in err
