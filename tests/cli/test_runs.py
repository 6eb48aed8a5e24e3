import io
import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from hmz_mp.cli.runs import _print_table
from hmz_mp.runs import runs_directory
from hmz_mp.runs.summaries import RunSummary

from ..runs.support import new_ledger, turn
from .support import hmz_mp, write_run


@pytest.fixture(autouse=True)
def _start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def summary(run_id: str = "20260101-000000-0000", **fields: object) -> RunSummary:
    given: dict[str, object] = {
        "run_id": run_id,
        "directory": Path(run_id),
        "status": "interrupted",
        "started_at": 1000.0,
        "ended_at": 1061.0,
        "flow": "fanout",
        "command": ("hmz-mp", "exec", "-a", "tool/x:y", "a very long task " * 20),
        "counts": {"ok": 1700, "failed": 12, "not_run": 3},
    }
    return RunSummary(**(given | fields))  # type: ignore[arg-type]


def table(*runs: RunSummary, width: int | None) -> list[str]:
    stream = io.StringIO()
    terminal = width is not None
    console = Console(file=stream, width=width, force_terminal=terminal, no_color=True)
    _print_table(list(runs), 4600.0, console)
    plain = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    return [line.rstrip() for line in plain.splitlines()]


def test_no_runs() -> None:
    done = hmz_mp("runs")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no runs here yet: hmz-mp exec starts one\n"
    assert hmz_mp("runs", "--json").output == ""


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    first, second = write_run(tmp_path), write_run(tmp_path, "ok")
    done = hmz_mp("runs")
    assert done.exit_code == 0
    heading, newest, oldest = done.stdout.splitlines()
    assert heading.split() == ["RUN", "STARTED", "FLOW", "STATUS", "TURNS", "TOOK", "COMMAND"]
    assert newest.startswith(f"{second}  just now  fanout  ok ")
    assert oldest.startswith(f"{first}  just now  fanout  failed ")
    assert "3 ok, 1 failed, 1 not run" in oldest
    assert oldest.rstrip().endswith("hmz-mp exec -a tool/x:y")


def test_a_run_in_progress_is_shown_as_it_stands(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.put(turn(0, state="running"))
        ledger.put(turn(1))
        ledger.flush()
        assert "running  1 running, 1 queued" in hmz_mp("runs").stdout
        (run,) = map(json.loads, hmz_mp("runs", "--json").stdout.splitlines())
    assert (run["status"], run["ended_at"], run["exit_code"]) == ("running", None, None)
    assert 0 <= run["seconds"] < 60


def test_a_run_in_progress_shows_how_far_it_is(tmp_path: Path) -> None:
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.note("UPDATE runs SET items = 1500")
        ledger.put(turn(0, state="ok", ended_at=time.time()))
        ledger.put(turn(1, state="failed", ended_at=time.time()))
        ledger.put(turn(2, state="running"))
        ledger.flush()
        assert "running  2 of 1,500, 1 failed, " in hmz_mp("runs").stdout
        (run,) = map(json.loads, hmz_mp("runs", "--json").stdout.splitlines())
        shown = hmz_mp("show", "last").stdout
    assert (run["selected"], run["total"]) == (1500, 1500)
    assert run["seconds_left"] > 0
    assert "to come   1,497 more at least" in shown


def test_json_is_one_object_per_run_and_line(tmp_path: Path) -> None:
    ids = [write_run(tmp_path), write_run(tmp_path)]
    done = hmz_mp("runs", "--json")
    assert done.stderr == ""
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["run_id"] for one in objects] == ids[::-1]
    one = objects[0]
    assert list(one) == [
        "run_id",
        "status",
        "exit_code",
        "started_at",
        "ended_at",
        "seconds",
        "flow",
        "task",
        "agents",
        "command",
        "options",
        "selected",
        "counts",
        "total",
        "seconds_left",
        "problem",
    ]
    assert one["command"] == ["hmz-mp", "exec", "-a", "tool/x:y"]
    assert one["counts"] == {
        "ok": 3,
        "failed": 1,
        "cancelled": 0,
        "not_run": 1,
        "running": 0,
        "waiting": 0,
        "queued": 0,
    }
    assert one["started_at"].endswith("+00:00")
    assert one["seconds"] >= 0
    assert (one["selected"], one["total"], one["seconds_left"]) == (None, 5, None)


@pytest.mark.parametrize("width", range(20, 200, 7))
def test_the_table_fits_the_terminal(width: int) -> None:
    runs = [summary(), summary(flow="文字" * 20), summary(status="ok", counts={})]
    lines = table(*runs, width=width)
    assert len(lines) == 4
    assert max(map(len, lines)) <= width
    if width >= 60:
        assert all(line.startswith("20260101-000000-0000  ") for line in lines[1:])


def test_what_matters_less_goes_first() -> None:
    def headings(width: int) -> list[str]:
        return table(summary(), width=width)[0].split()

    assert headings(110) == ["RUN", "STARTED", "FLOW", "STATUS", "TURNS", "TOOK", "COMMAND"]
    assert headings(94) == ["RUN", "STARTED", "FLOW", "STATUS", "TURNS", "TOOK"]
    assert headings(84) == ["RUN", "STARTED", "STATUS", "TURNS", "TOOK"]
    assert headings(74) == ["RUN", "STATUS", "TURNS", "TOOK"]
    assert headings(66) == ["RUN", "STATUS", "TURNS"]


def test_away_from_a_terminal_nothing_is_shortened() -> None:
    _, line = table(summary(), width=None)
    assert line.endswith(("a very long task " * 20).strip() + " '")
    assert "1h ago" in line
    assert "1:01" in line


def test_foreign_text_is_shown_escaped(tmp_path: Path) -> None:
    shown = summary(flow="[red]\x1b[2J", command=("\x1b]0;title\x07", "\udcff\n"))
    (_, line) = table(shown, width=None)
    assert "[red]\\x1b[2J" in line
    assert "'\\x1b]0;title\\x07' '\\xff\\n'" in line


def test_an_unreadable_run_is_listed_with_why(tmp_path: Path) -> None:
    good = write_run(tmp_path)
    bad = runs_directory(tmp_path) / "99990101-000000-0000"
    bad.mkdir()
    (bad / "run.db").write_bytes(b"nonsense" * 999)
    done = hmz_mp("runs")
    assert done.exit_code == 0
    _, first, second = done.stdout.splitlines()
    assert first.split()[:2] == ["99990101-000000-0000", "unreadable"]
    assert "file is not a database" in first
    assert second.startswith(good)
    (one, _) = map(json.loads, hmz_mp("runs", "--json").stdout.splitlines())
    assert (one["status"], one["started_at"], one["seconds"]) == ("unreadable", None, None)
