"""``hmz-mp bench``: what it refuses, what it shows, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hmz_mp.cli import bench_runs, bench_width
from hmz_mp.cli.bench_show import Where, print_table
from hmz_mp_bench.measuring import Run
from hmz_mp_bench.plan import Step
from hmz_mp_bench.registry import CONTENDERS, Entry
from hmz_mp_bench.runner import Measured
from hmz_mp_bench.tables import Table
from hmz_mp_bench.width import Width
from tests.helpers import is_alive, wait_until

from .support import hmz_mp

TOOL = "tool/hmz_mp.toolbox.python:outline"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "other.json").write_text('{"format": 9}')
    (tmp_path / "bad.py").write_text("def (:\n")
    return tmp_path


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(bench_runs, "carry_out", refuse)
    monkeypatch.setattr(bench_width, "measure_in_a_fresh_process", refuse)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "there is no workload 'nosuch'; there are gathered"),
        (["--only", "\x1b[31m"], "no workload '\\x1b[31m'"),
        (["--against", "nobody"], "there is no contender 'nobody'"),
        (["--runs", "0"], "0 is not in the range"),
        (["--workers", "two"], "is not a list of numbers"),
        (["--workers", "1,2"], "only with --width"),
        (["--workers", "0"], "0 is less than 1"),
        (["--at-once", "2"], "--at-once belongs to --width"),
        (["--json", "nowhere/x.json"], "cannot be written"),
        (["--svg", "."], "cannot be written"),
        (["--from", "d.json"], "there is no file 'd.json'"),
        (["--from", "a.py"], "'a.py' is not what hmz-mp bench --json writes"),
        (["--from", "list.json"], "'list.json' is not what"),
        (["--from", "other.json"], "its format is 9, not 1"),
        (["--width", TOOL], "needs the FILEs"),
        (["--width", TOOL, "d.py"], "there is no file 'd.py'"),
        (["--width", TOOL, "."], "is a directory"),
        (["--width", f"{TOOL}s", "a.py"], "has no 'outlines'"),
        (["--width", "tool/no_such_module_x:y", "a.py"], "there is no module"),
        (["--width", "nothing", "a.py"], "is not written BACKEND/MODEL"),
        (["--width", "claude/opus", "a.py"], "with tool/ or sh/"),
        (["--width", TOOL, "--quick", "a.py"], "--quick does not go with --width"),
        (["--width", TOOL, "--at-once", "1,x", "a.py"], "is not a list of numbers"),
    ],
)
def test_bad_input_is_said_before_anything_runs(
    here: Path, arguments: list[str], said: str
) -> None:
    done = hmz_mp("bench", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def measured_as(monkeypatch: pytest.MonkeyPatch, answer: Run) -> None:
    monkeypatch.setattr(bench_runs, "in_a_fresh_process", lambda *_: answer)


def good(step: Step) -> Measured:
    seconds = 1e-3 if step.contender == "process-pool" else 1e-5
    return Measured({"call": seconds, "all": seconds, "calls": 1.0, "answers": seconds,
                     "next": seconds, "whole": seconds})  # fmt: skip


def test_a_table_and_the_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_as(monkeypatch, good)
    monkeypatch.setitem(CONTENDERS, "loky", Entry("loky [x]", "nowhere:Nothing", "no-such-thing"))
    against = ["--against", "hmz-mp", "--against", "process-pool", "--against", "loky"]
    files = ["--json", "out.json", "--svg", "out.svg"]
    done = hmz_mp("bench", "gathered", "--only", "parse", *against, *files, "--runs", "2")
    assert done.exit_code == 0
    assert "ProcessPoolExecutor  1.00 ms" in done.stdout
    assert "loky [x]: no-such-thing is not installed" in done.stdout
    assert "at least 25 ×" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "gathered: hmz_mp.Pool, run 1" in done.stderr
    written = json.loads((here / "out.json").read_text())
    assert list(written["workloads"]) == ["gathered", "parse"]
    assert len(written["workloads"]["gathered"]["contenders"]["hmz-mp"]["samples"]) == 2
    ElementTree.fromstring((here / "out.svg").read_text())
    again = hmz_mp("bench", "--from", "out.json", "--json", "again.json")
    assert again.exit_code == 0
    assert again.stdout == done.stdout
    assert json.loads((here / "again.json").read_text()) == written


def test_markdown_goes_to_standard_output(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured_as(monkeypatch, good)
    done = hmz_mp("bench", "one-by-one", "--quick", "--markdown", "--against", "hmz-mp")
    assert done.exit_code == 0
    assert "| hmz\\_mp.Pool | 10.0 µs | 10.0 µs | 1 | 100,000 | 1.00 × |" in done.stdout


def test_a_contender_that_failed_is_shown_and_is_exit_1(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_as(monkeypatch, lambda _: Measured(problem="wrong answer: \x1b[31m"))
    done = hmz_mp("bench", "gathered", "--against", "serial")
    assert done.exit_code == 1
    assert "serial loop: wrong answer: \\x1b[31m" in done.stdout


def test_interrupted_it_shows_what_it_has(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(step: Step) -> Measured:
        if step.contender == "process-pool":
            raise KeyboardInterrupt
        return good(step)

    measured_as(monkeypatch, measure)
    done = hmz_mp("bench", "gathered", "--json", "out.json")
    assert done.exit_code == 130
    assert "hmz_mp.Pool" in done.stdout
    assert "partial" in done.stderr
    assert json.loads((here / "out.json").read_text())["partial"] is True


def test_the_smoke_test_wants_answers_and_a_ratio(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_as(monkeypatch, good)
    done = hmz_mp("bench", "--smoke")
    assert done.exit_code == 0
    assert "100.0 × ProcessPoolExecutor" in done.stdout
    measured_as(monkeypatch, lambda _: Measured({"call": 1.0, "all": 1.0}))
    assert hmz_mp("bench", "--smoke").exit_code == 1
    measured_as(monkeypatch, lambda _: Measured(problem="wrong answer: 3"))
    done = hmz_mp("bench", "--smoke", "--json", "out.json")
    assert done.exit_code == 1
    assert "gathered: hmz-mp: wrong answer: 3" in done.stdout
    assert (here / "out.json").exists()


def test_lists_and_help() -> None:
    assert "dask.distributed" in hmz_mp("bench", "--list").stdout
    assert "hmz-mp bench --width" in hmz_mp("bench", "--help").stdout


# A user's own tool.


def test_a_tool_at_two_widths(here: Path) -> None:
    widths = ["--workers", "1,2", "--at-once", "2", "--runs", "1"]
    done = hmz_mp("bench", "--width", TOOL, *widths, "--json", "out.json", "a.py", "b.py", "c.py")
    assert done.exit_code == 0, done.output
    assert "best: --workers" in done.stdout
    written = json.loads((here / "out.json").read_text())
    assert [(one["workers"], one["at_once"]) for one in written["widths"]] == [(1, 2), (2, 2)]
    assert written["knee"] is not None


def test_files_that_fail_are_counted_with_a_reason(here: Path) -> None:
    widths = ["--workers", "1", "--at-once", "1", "--runs", "1"]
    done = hmz_mp("bench", "--width", TOOL, *widths, "a.py", "bad.py")
    assert done.exit_code == 1
    assert "1 of 2 files failed: bad.py: SyntaxError" in done.stdout
    done = hmz_mp("bench", "--width", TOOL, *widths, "bad.py")
    assert done.exit_code == 1
    assert "best:" not in done.stdout


def test_a_run_that_ends_badly_ends_the_sweep(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Measured(problem="killed by SIGKILL")
    monkeypatch.setattr(bench_width, "measure_in_a_fresh_process", lambda *_: lambda _: broken)
    done = hmz_mp("bench", "--width", TOOL, "--workers", "1,2", "a.py")
    assert done.exit_code == 1
    assert done.stdout == "failed: 1 worker, 1 at once: killed by SIGKILL\n"


def test_an_interrupted_sweep_names_the_best_so_far(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(width: Width) -> Measured:
        if width.workers == 2:
            raise KeyboardInterrupt
        return Measured({"all": 1.0, "failed": 0.0})

    monkeypatch.setattr(bench_width, "measure_in_a_fresh_process", lambda *_: measure)
    done = hmz_mp("bench", "--width", TOOL, "--workers", "1,2", "a.py")
    assert done.exit_code == 130
    assert "best: --workers 1 --at-once 1" in done.stdout
    assert "partial" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_is_measured(here: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "hmz_mp", "bench", "--width", "sh/sleep 30", "a.py"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as bench:
        below: list[int] = []

        def sleeping() -> bool:
            below[:] = _sleepers(bench.pid)
            return bool(below)

        wait_until(sleeping)
        bench.send_signal(number)
        _, said = bench.communicate(timeout=20)
    assert bench.returncode == 130, said
    assert "partial" in said
    wait_until(lambda: not any(map(is_alive, below)))


def _sleepers(pid: int) -> list[int]:
    import psutil

    try:
        children = psutil.Process(pid).children(recursive=True)
        return [one.pid for one in children if one.name() == "sleep"]
    except psutil.Error:
        return []


# What is shown.


def test_lines_come_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    with Where(lambda: now) as where:
        where.look("a \x1b[31m", 1, 9, 65.0)
        where.look("b", 2, 9, 60.0)
        now = 11.0
        where.look("c", 3, 9, 0.4)
    said = capsys.readouterr().err.splitlines()
    assert said == ["1/9  a \\x1b[31m  about 1:05 left", "3/9  c  about 0.4 s left"]


def test_a_table_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table("a [red]title", ["", "median"], [["x\x1b[31m", "1 s"]], ["below [b]"]))
    said = capsys.readouterr().out
    assert "a [red]title" in said
    assert "x\\x1b[31m" in said
    assert "  below [b]" in said
    assert os.linesep in said
