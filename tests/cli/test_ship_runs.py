"""Runs whose turns get their files sent, as people start them: what comes back, what is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.cli.processes import Done, Project
from tests.fakes.programs import fake_claude
from tests.waiting import is_gone, until
from tests.worktrees.support import Repository

# Edits its file and, for two of them, a shared one; says what else there is.
TOOL = """
import helper
from pathlib import Path

def edit(path: Path):
    path.write_text(helper.better(path.read_text(), path.name))
    if path.name in ("f1", "f3"):
        shared = Path("shared")
        shared.write_text(shared.read_text().replace("two", f"two by {path.name}"))
    return sorted(str(one) for one in Path(".").rglob("*") if one.name != ".git")

async def look(path: Path, cwd: str):
    assert path.is_absolute()
    return [path.read_text(), sorted(one.name for one in Path(cwd).iterdir())]
"""
HELPER = "def better(text, name):\n    return text.replace('two', f'two by {name}')\n"

HANGS = """
import os, sys, time
from pathlib import Path

path = Path(sys.argv[1])
path.write_text("edited\\n")
Path(sys.argv[2], path.name).write_text(f"{os.getpid()}\\n")
while path.name >= "f2" and not Path(sys.argv[2], "go").exists():
    time.sleep(0.05)
"""


class Checkout:
    """A project that is a git repository with five files, tools, and something ignored."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.repository = Repository(project.root)
        for name in ("f0", "f1", "f2", "f3", "f4", "shared"):
            project.write(name, "one\ntwo\nthree\n")
        project.write("lib/tool.py", TOOL)
        project.write("lib/helper.py", HELPER)
        project.write("flow.py", FLOW)
        project.write(".gitignore", "*.ignored\n__pycache__/\n.hmz-mp/\n")
        self.repository.commit()
        project.write("x.ignored")
        self.outside = project.root.parent / "outside"
        self.outside.mkdir()

    def exec(self, *arguments: str, agent: str = "tool/lib/tool.py:edit") -> Done:
        return self.project.exec("--ship", "-a", agent, *arguments)

    def assert_nothing_is_left(self) -> None:
        assert not self.repository.exists(".hmz-mp/worktrees")
        assert self.repository.worktrees() == []
        assert self.repository.staged() == b""
        assert len(self.repository.refs().splitlines()) == 1


FLOW = """
from hmz_mp.agents import Prompt
from hmz_mp.flows import Agent, flow
from hmz_mp.worktrees import worktree

@flow()
async def talk(agents: tuple[Agent], task: str):
    (agent,) = agents
    session = agent.new()
    told = [await session.aturn(Prompt(text)) for text in ("cwd", "write said hello", "cwd")]
    history = await session.aturn("history")
    others = await agent.abatch([f"write one{n} {n}" for n in range(4)], cwd=worktree())
    print(told[0] == told[2], history.count("cwd"), len(others))

@flow()
async def files(agents: tuple[Agent], task: str):
    (agent,) = agents
    session = agent.new()
    for name in ("f0", "f1", "f0"):
        print(await session.aturn(Prompt("", path=name.encode(), item_id=f"{name} again")))
    print(await agent.aturn("", cwd="/", suppress=True) == "")
    print(await agent.aturn(Prompt("", path=b"x.ignored"), suppress=True) == "")
"""


@pytest.fixture
def checkout(project: Project) -> Checkout:
    return Checkout(project)


def test_five_files_of_which_two_conflict(checkout: Checkout) -> None:
    declared = ("--ship-also", "shared", "--ship-also", "lib/*.py", "--ship-also", "!tool.py")
    done = checkout.exec("--include", "f?", *declared, "--json")
    assert done.status == 1, done
    assert checkout.repository.status() == {b" M f0", b" M f1", b" M f2", b" M f4", b" M shared"}
    assert checkout.repository.read("shared") == b"one\ntwo by f1\nthree\n"
    assert checkout.repository.read("f4") == b"one\ntwo by f4\nthree\n"
    assert done.states == dict.fromkeys(["f0", "f1", "f2", "f4"], "ok") | {"f3": "needs_review"}
    (row,) = [row for row in done.rows if row["item_id"] == "f3"]
    assert row["error"] == "'shared': conflicts with the patch of 'f1'"
    seen = '[".gitignore","f3","lib","lib/helper.py","lib/tool.py","shared"]'
    assert row["answer"] == seen
    assert "4 patches applied to the checkout" in done.err
    checkout.assert_nothing_is_left()


def test_what_is_not_committed_goes_along_and_only_changes_come_back(checkout: Checkout) -> None:
    checkout.project.write("f0", "uncommitted two\n")
    checkout.project.write("new", "new\n")
    given = ("--include", "f0", "--include", "new", "--ship-also", "lib/", "--print")
    done = checkout.exec(*given, agent="tool/lib/tool.py:look")
    assert done.status == 0, done
    said = '["{}\\n",[".git",".gitignore",{}]]'
    assert done.lines == [
        said.format("uncommitted two", '"f0","lib"'),
        said.format("new", '"lib","new"'),
    ]
    assert checkout.repository.status() == {b" M f0", b"?? new"}
    checkout.assert_nothing_is_left()


def test_commands_and_names_of_any_bytes(checkout: Checkout) -> None:
    names = [b"g-\xff", b"g \n'\"", b"g--dash", b"g\x1b[31m", b"g$(touch pwned)"]
    for name in names:
        checkout.repository.write(name, "two\n")
    checkout.repository.write("edit.sh", '#!/bin/sh\necho more >> "$1"\n', 0o755)
    done = checkout.exec("--include", "g*", "--json", agent="sh/./edit.sh {path}")
    assert done.status == 0, done
    assert all(checkout.repository.read(name) == b"two\nmore\n" for name in names)
    assert not checkout.repository.exists("pwned")
    checkout.assert_nothing_is_left()


def test_sessions_and_places_of_flows(checkout: Checkout) -> None:
    done = checkout.exec("-f", "flow.py:files", agent="sh/sh -c 'cat *; echo more >> {path}'")
    assert done.lines == ["one", "two", "three", "one", "two", "three", "more", "one", "two",
                          "three", "one", "two", "three", "more", "more", "True",
                          "True"] or done.status == 1, done  # fmt: skip
    assert checkout.repository.read("f0") == b"one\ntwo\nthree\nmore\nmore\n"
    assert checkout.repository.read("f1") == b"one\ntwo\nthree\nmore\n"
    assert "'x.ignored' is not among the files that the run began with" in done.err
    checkout.assert_nothing_is_left()


def test_agents_that_converse(checkout: Checkout) -> None:
    folder = checkout.project.root.parent
    fake_claude(folder)
    checkout.project.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    done = checkout.exec("-f", "flow.py:talk", "--at-once", "3", agent="claude/fake")
    assert done.status == 0, done
    assert done.out == b"True 2 4\n"
    assert checkout.repository.read("said") == b"hello"
    assert all(checkout.repository.read(f"one{n}") == b"%d" % n for n in range(4))
    checkout.assert_nothing_is_left()


# Lines to correct, and checkouts.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worktree"], "--worktree and --ship cannot be used together"),
        (["--ship-also", "*.nothing"], "--ship-also '*.nothing' names no file here"),
    ],
)
def test_a_line_to_correct(checkout: Checkout, arguments: list[str], said: str) -> None:
    done = checkout.project.exec_here("--ship", "-a", "sh/cat", *arguments)
    assert (done.status, done.out) == (2, b""), done
    assert said in done.err
    checkout.assert_nothing_is_left()


def test_what_goes_along_with_nothing(checkout: Checkout) -> None:
    done = checkout.project.exec_here("-a", "sh/cat", "--ship-also", "*")
    assert done.status == 2
    assert "and there is no --ship" in done.err


def test_a_directory_that_git_does_not_know(project: Project) -> None:
    project.files("a")
    done = project.exec_here("--ship", "-a", "sh/cat")
    assert done.status == 2
    assert "--ship needs a git checkout" in done.err
    Repository(project.root)
    done = project.exec_here("--ship", "-a", "sh/cat")
    assert done.status == 2
    assert "has no commits yet, and --ship needs one" in done.err


def test_items_that_are_not_sent_are_said_before_any_turn(checkout: Checkout) -> None:
    done = checkout.project.exec(
        *("--ship", "-a", "sh/cat", "--items", "-"), stdin=b"f0\nx.ignored\n"
    )
    assert done.status == 2
    assert "--ship: 'x.ignored' will not be sent: git ignores it" in done.err
    checkout.assert_nothing_is_left()


# Going on, interrupted, killed.


def ended(checkout: Checkout, number: int) -> int:
    """End a run in which two turns are done and two run; return its status."""
    (checkout.project.root.parent / "slow.py").write_text(HANGS)
    slow = f"sh/{sys.executable} {checkout.project.root.parent}/slow.py {{path}} {checkout.outside}"
    process = checkout.project.start(
        "exec", "--ship", "--include", "f?", "--at-once", "2", "-a", slow
    )
    try:
        until(lambda: len([one for one in checkout.outside.iterdir() if one.read_text()]) == 4)
        until(lambda: _ok_turns(checkout) == 2)
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return process.returncode


def _ok_turns(checkout: Checkout) -> int:
    (run,) = (checkout.project.root / ".hmz-mp" / "runs").iterdir()
    connection = sqlite3.connect(run / "run.db")
    try:
        query = "SELECT count(*) FROM turns WHERE state = 'ok'"
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


def test_a_run_that_was_interrupted_goes_on(checkout: Checkout) -> None:
    assert ended(checkout, signal.SIGINT) == 130
    assert checkout.repository.status() == set()
    checkout.assert_nothing_is_left()
    (checkout.outside / "go").touch()
    done = checkout.project.exec("--resume", "last", "--json")
    assert done.status == 0, done
    assert "2 of them answered before" in done.err
    assert checkout.repository.status() == {f" M f{n}".encode() for n in range(5)}
    checkout.assert_nothing_is_left()


def test_a_run_that_was_killed_is_cleared(checkout: Checkout) -> None:
    assert ended(checkout, signal.SIGKILL) == -signal.SIGKILL
    for file in checkout.outside.iterdir():
        until(lambda file=file: is_gone(int(file.read_text())))  # type: ignore[misc]
    done = checkout.project.run("gc")
    assert done.status == 0, done
    assert b"\n  2 patches of it not applied yet" in done.out
    checkout.assert_nothing_is_left()
    done = checkout.project.run("apply", "last")
    assert done.status == 0, done
    assert checkout.repository.status() == {b" M f0", b" M f1"}


def test_a_worker_that_died_takes_nobody_s_files(checkout: Checkout) -> None:
    checkout.project.write("die.py", "import os\ndef die(path):\n    os.kill(os.getpid(), 9)\n")
    done = checkout.exec("--include", "f?", "--json", "--retries", "1", agent="tool/die.py:die")
    assert done.status == 1
    assert set(done.states.values()) == {"failed"}
    assert [row["attempts"] for row in done.rows] == [2] * 5
    assert "f4: worker " in done.err
    assert "was ended by SIGKILL while it ran" in done.err
    checkout.assert_nothing_is_left()
    assert list(Path(checkout.project.root).glob("**/*.git")) == [checkout.project.root / ".git"]
