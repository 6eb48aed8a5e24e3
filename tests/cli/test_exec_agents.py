"""``hmz-mp exec`` with agents that are programs of their own: fakes of them."""

from __future__ import annotations

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
