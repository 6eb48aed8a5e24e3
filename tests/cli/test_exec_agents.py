"""``hmz-mp exec`` with agents that are programs of their own: fakes of them."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import SECONDS, Project
from tests.fakes.programs import fake_claude, fake_codex
from tests.helpers import is_alive, wait_until, written


@pytest.fixture
def agents(project: Project, tmp_path: Path) -> dict[str, str]:
    """Return the agents to give with -a."""
    return {
        "claude": f"cli=claude,model=opus,program={fake_claude(tmp_path)}",
        "codex": f"cli=codex,model=gpt-5,program={fake_codex(tmp_path)}",
    }


BOTH = pytest.mark.parametrize("kind", ["claude", "codex"])


@BOTH
def test_rows_and_the_ledger(project: Project, agents: dict[str, str], kind: str) -> None:
    items = b"say fine\ndeny Bash\nexit 3 out of luck\nsay \x1b[31m[red]\n"
    options = ("--items", "-", "--json", "--quiet", "--at-once", "1")
    done = project.exec("-a", agents[kind], *options, stdin=items)
    assert done.status == 1
    assert [row["status"] for row in done.rows] == ["ok", "failed", "failed", "ok"]
    assert "\x1b" not in done.err
    (ledger,) = project.root.rglob("run.db")
    with sqlite3.connect(ledger) as database:
        rows = database.execute(
            "SELECT failure, input_tokens, conversation, answer FROM turns ORDER BY number"
        ).fetchall()
    database.close()
    assert [row[0] for row in rows] == [None, "denied", "died", None]
    assert [row[1] for row in rows] == [100, 100, 0, 100]
    assert all(row[2] for row in rows)
    assert rows[3][3] == "\x1b[31m[red]"


@BOTH
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_the_run_ends_the_programs_and_their_tools(
    project: Project, agents: dict[str, str], kind: str, how: signal.Signals
) -> None:
    file = project.root / "pids"
    process = project.start(
        "exec", "-a", agents[kind], "--items", "-", "--quiet", stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(f"child {file}\n".encode())
    process.stdin.close()
    process.stdin = None
    try:
        wait_until(lambda: written(file))
        process.send_signal(how)
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == (-signal.SIGKILL if how is signal.SIGKILL else 130)
    wait_until(lambda: not any(is_alive(int(pid)) for pid in written(file).split()))


def test_how_many_go_at_once_is_found_out(
    project: Project, agents: dict[str, str], tmp_path: Path
) -> None:
    items = b"busy %b 1\n" % os.fsencode(tmp_path / "asked")
    items += b"sleep 0.2\nsleep 0.3\nsleep 0.4\n"
    done = project.exec("-a", agents["claude"], "--items", "-", stdin=items)
    assert done.status == 0, done
    assert re.search(r"^claude: at most [12] at once in the end$", done.err, re.MULTILINE)
    shown = json.loads(project.run("show", "last", "--json").out)
    assert shown["options"]["at_once"] == "auto"


def test_totals_are_exact_when_programs_are_used_again(
    project: Project, agents: dict[str, str]
) -> None:
    items = b"".join(b"say %d\n" % number for number in range(6))
    options = ("--items", "-", "--json", "--at-once", "2", "--max-cost", "3.00")
    done = project.exec("-a", agents["claude"], *options, stdin=items)
    assert (done.status, [row["status"] for row in done.rows]) == (0, ["ok"] * 6)
    assert [row["usage"][0]["cost_usd"] for row in done.rows] == [0.5] * 6
    assert "models: $3.00, 600 tokens read, 42 written\n" in done.err
    assert "allowed" not in done.err
    shown = json.loads(project.run("show", "last", "--json").out)
    assert [(one["cost_usd"], one["input_tokens"]) for one in shown["usage"]] == [(3.0, 600)]
    assert (shown["status"], shown["options"]["max_cost"]) == ("ok", 3.0)


@pytest.mark.parametrize(
    ("kind", "budget", "reason"),
    [
        ("claude", ("--max-cost", "0.75"), "$0.75 is spent"),
        ("claude", ("--max-tokens", "200"), "200 tokens are used"),
        ("codex", ("--max-tokens", "200"), "200 tokens are used"),
    ],
)
def test_a_budget_ends_a_run(
    project: Project, agents: dict[str, str], kind: str, budget: tuple[str, str], reason: str
) -> None:
    items = b"".join(b"say %d\n" % number for number in range(9))
    options = ("--items", "-", "--json", "--quiet", "--at-once", "1", *budget)
    done = project.exec("-a", agents[kind], *options, stdin=items)
    states = [row["status"] for row in done.rows]
    ran = states.count("ok")
    assert done.status == 1
    assert states == ["ok"] * ran + ["not_run"] * (9 - ran)
    # The one after the last may have been shipped before the last one's costs were heard of.
    assert ran in (2, 3)
    assert f"{9 - ran} of 9 not run: {reason}, the most that was allowed (which" in done.err
    assert "more than was allowed, by the turn that ran when that was reached\n" in done.err
    assert done.rows[-1]["error"] == f"{reason}, the most that was allowed"
    assert json.loads(project.run("show", "last", "--json").out)["status"] == "budget spent"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-cost", "0"),
        ("--max-cost", "-1"),
        ("--max-cost", "nan"),
        ("--max-cost", "inf"),
        ("--max-cost", "$5"),
        ("--max-tokens", "0"),
        ("--max-tokens", "1.5"),
        ("--max-tokens", "many"),
    ],
)
def test_budgets_that_are_none(
    project: Project, agents: dict[str, str], option: str, value: str
) -> None:
    done = project.exec_here("-a", agents["claude"], "--dry-run", option, value)
    assert done.status == 2
    assert option in done.err


def test_how_a_program_knows_its_conversation_is_shown(
    project: Project, agents: dict[str, str]
) -> None:
    project.exec("-a", agents["claude"], "--items", "-", "--quiet", stdin=b"say fine\n")
    shown = project.run("show", "last", "say fine")
    (known,) = [one for one in shown.lines if one.startswith("  known as")]
    assert len(known.split()[2]) == 36


def test_a_busy_service_is_waited_for(project: Project, agents: dict[str, str]) -> None:
    items = f"busy {project.root / 'asked'} 1\nsay two\nsay three\n".encode()
    options = ("--items", "-", "--json", "--quiet", "--at-once", "3")
    done = project.exec("-a", agents["claude"], *options, stdin=items)
    assert done.status == 0
    assert "failed" not in done.err
    assert [row["answer"] for row in done.rows] == ["served", "two", "three"]
    assert [row["attempts"] for row in done.rows] == [2, 1, 1]


def test_a_service_that_lets_nobody_in_ends_the_run_with_one_message(
    project: Project, agents: dict[str, str]
) -> None:
    items = b"".join(b"retry 401 %d\n" % number for number in range(9))
    options = ("--items", "-", "--json", "--at-once", "2")
    done = project.exec("-a", agents["claude"], *options, stdin=items)
    states = [row["status"] for row in done.rows]
    assert done.status == 1
    assert states.count("failed") in (1, 2, 3)
    assert states.count("not_run") == 9 - states.count("failed")
    failures = done.err[done.err.index("failed:") :]
    assert failures.count(" retry 401 ") == 1
    assert f"{states.count('not_run')} of 9 not run: unauthorised" in failures
