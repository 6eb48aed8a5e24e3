"""Runs in worktrees, as people start them: what is in the checkout after, and what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import COMMAND, Done, Project
from tests.cli.support import hmz_mp
from tests.fakes.programs import fake_claude
from tests.waiting import is_gone, until
from tests.worktrees.support import Repository

EDIT = """
import os, sys, time
from pathlib import Path

path = Path(os.fsdecode(sys.argv[1]))
path.write_text(path.read_text().replace("two", f"two by {path.name!r}"))
if path.name in ("f07", "f23"):
    shared = Path("shared")
    shared.write_text(shared.read_text().replace("two", f"two by {path.name}"))
print(os.getcwd())
"""

# Says that it runs, and hangs if its file is to be among the last.
HANGS = """
import os, sys, time
from pathlib import Path

path = Path(sys.argv[1])
outside = Path(sys.argv[2])
path.write_text("edited\\n")
if path.name >= "f06":
    (outside / path.name).write_text(f"{os.getpid()}\\n")
    while True:
        time.sleep(0.05)
"""


class Checkout:
    """A project that is a git repository, with forty files and a program that edits them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.repository = Repository(project.root)
        for number in range(40):
            project.write(f"f{number:02}", "one\ntwo\nthree\n")
        project.write("shared", "one\ntwo\nthree\n")
        self.repository.commit()
        self.outside = project.root.parent / "outside"
        self.outside.mkdir()
        self.editor = self.script("edit.py", EDIT)

    def script(self, name: str, text: str) -> str:
        path = self.project.root.parent / name
        path.write_text(text)
        return f"sh/python3 {path} {{path}}"

    def exec(self, *arguments: str, agent: str | None = None, include: str = "f*") -> Done:
        given = ("--worktree", "--include", include, "-a", agent or self.editor)
        return self.project.exec(*given, *arguments)

    def show(self, *arguments: str) -> str:
        """Run ``hmz-mp show`` in this process, which is faster."""
        with contextlib.chdir(self.project.root):
            return hmz_mp("show", *arguments).stdout

    def run_id(self) -> str:
        (run,) = (self.project.root / ".hmz-mp" / "runs").iterdir()
        return run.name

    def assert_nothing_is_left(self) -> None:
        assert self.repository.worktrees() == []
        assert not self.repository.exists(".git/worktrees")
        assert not self.repository.exists(".hmz-mp/worktrees")
        assert self.repository.staged() == b""
        heads = [line.split()[-1] for line in self.repository.refs().splitlines()]
        assert len(heads) == 1


@pytest.fixture
def checkout(project: Project) -> Checkout:
    return Checkout(project)


def test_forty_files_of_which_two_conflict(checkout: Checkout) -> None:
    done = checkout.exec("--at-once", "4", "--json")
    assert done.status == 1, done
    changed = {f" M f{number:02}".encode() for number in range(40) if number != 23}
    assert checkout.repository.status() == changed | {b" M shared"}
    assert checkout.repository.read("shared") == b"one\ntwo by f07\nthree\n"
    checkout.assert_nothing_is_left()

    assert "39 patches applied to the checkout\n1 patch not applied" in done.err
    assert "  f23: 'shared': conflicts with the patch of 'f07'\n" in done.err
    (patch,) = (checkout.project.root / ".hmz-mp" / "runs").glob("*/patches/*")
    assert patch.name == "000023-f23.patch"
    assert str(patch.relative_to(checkout.project.root)) in done.err

    assert [row["item_id"] for row in done.rows] == [f"f{number:02}" for number in range(40)]
    assert done.states["f23"] == "needs_review"
    assert list(done.states.values()).count("ok") == 39
    (row,) = [row for row in done.rows if row["item_id"] == "f23"]
    assert row["error"] == "'shared': conflicts with the patch of 'f07'"
    folders = {row["answer"] for row in done.rows}
    assert len(folders) <= 4
    assert all("/.hmz-mp/worktrees/" in folder for folder in folders)

    # The ledger has all of it.
    shown = checkout.show("last", "f23")
    assert "+two by 'f23'" in shown
    assert "not applied: 'shared': conflicts with the patch of 'f07'" in shown
    turn = json.loads(checkout.show("last", "f00", "--json"))
    assert turn["patch_state"] == "applied"
    assert "+two by 'f00'" in turn["patch"]
    assert os.fspath(checkout.project.root) not in turn["patch"]
    items = json.loads(checkout.show("last", "--json"))["items"]
    states = {row["item_id"]: row["status"] for row in items}
    assert (states["f23"], states["f00"]) == ("needs_review", "ok")
    assert "not in the checkout:\n  f23: 'shared'" in checkout.show("last")

    # What it says can be done with the patch is so.
    checkout.repository.git("commit", "--quiet", "--all", "--message", "the rest")
    checkout.repository.git("apply", "--3way", str(patch), status=1)
    assert b"<<<<<<<" in checkout.repository.read("shared")
    assert b"two by 'f23'" in checkout.repository.read("f23")


@pytest.mark.slow
def test_without_conflicts_all_is_well(checkout: Checkout) -> None:
    done = checkout.exec(include="f1*")
    assert done.status == 0, done
    assert len(checkout.repository.status()) == 10
    checkout.assert_nothing_is_left()
    assert "10 patches applied to the checkout" in done.err


@pytest.mark.slow
def test_quiet_says_only_what_went_wrong(checkout: Checkout) -> None:
    assert checkout.exec("--quiet", include="f1*").err == ""
    assert "f23: 'shared': conflicts" in checkout.exec("--quiet", include="f[02]*").err


@pytest.mark.slow
def test_names_of_any_bytes(checkout: Checkout) -> None:
    names = [b"f-\xff", b"f \n'\"", b"f--dash", b"f\x1b[31m"]
    checkout.project.files(*names)
    for name in names:
        checkout.repository.write(name, "one\ntwo\nthree\n")
    checkout.project.root.joinpath("f00").unlink()
    done = checkout.exec("--json", include="f[!0-9]*")
    assert done.status == 0, done
    for name in names:
        assert b"two by" in checkout.repository.read(name)
    assert checkout.repository.status() >= {b"?? " + name for name in names} | {b" D f00"}
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_a_run_from_a_directory_inside(checkout: Checkout) -> None:
    checkout.repository.write("deep/er/x", "two\n")
    checkout.repository.commit()
    given = ("--worktree", "-a", checkout.editor)
    process = subprocess.run(
        [*COMMAND, "exec", *given],
        cwd=checkout.project.root / "deep" / "er",
        env=checkout.project.environment,
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert checkout.repository.read("deep/er/x") == b"two by 'x'\n"
    assert checkout.repository.status() == {b" M deep/er/x"}


@pytest.mark.slow
def test_failed_items_change_nothing_and_the_rest_does(checkout: Checkout) -> None:
    agent = checkout.script("fail.py", EDIT + "\nsys.exit(path.name == 'f01')")
    done = checkout.exec("--json", agent=agent, include="f0[0-2]")
    assert done.status == 1
    assert done.states == {"f00": "ok", "f01": "failed", "f02": "ok"}
    assert checkout.repository.status() == {b" M f00", b" M f02"}
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_a_turn_that_is_ended_leaves_nothing(checkout: Checkout) -> None:
    agent = checkout.script("slow.py", HANGS) + f" {checkout.outside}"
    done = checkout.exec("--json", "--timeout", "1.5", agent=agent, include="f0[5-6]")
    assert done.states == {"f05": "ok", "f06": "failed"}
    assert checkout.repository.status() == {b" M f05"}
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_a_tool_runs_in_a_worktree_too(checkout: Checkout) -> None:
    tools = checkout.project.root.parent / "editing.py"
    tools.write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "def edit(path):\n"
        "    Path(path).write_text(os.getcwd())\n"
        "    if path == 'f02':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "async def aedit(path):\n"
        "    Path(path).write_text(path)\n"
    )
    done = checkout.exec("--json", agent=f"tool/{tools}:edit", include="f0[0-4]")
    assert done.states == {
        "f00": "ok", "f01": "ok", "f02": "failed", "f03": "ok", "f04": "ok",
    }  # fmt: skip
    assert checkout.repository.status() == {b" M f00", b" M f01", b" M f03", b" M f04"}
    assert b"/.hmz-mp/worktrees/" in checkout.repository.read("f00")
    done = checkout.exec("--json", agent=f"tool/{tools}:aedit", include="f1[0-4]")
    assert done.status == 0, done
    assert b"/.hmz-mp/worktrees/" in checkout.repository.read("f10")
    checkout.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda repository: repository.git("update-ref", "-d", "HEAD"), "has no commits yet"),
        (lambda repository: (repository.top / ".git").rename(repository.top / "g"), "is in none"),
    ],
)
def test_where_it_cannot_be_it_says_so_before_any_turn(
    checkout: Checkout, prepare: Any, said: str
) -> None:
    prepare(checkout.repository)
    done = checkout.project.exec_here("--worktree", "-a", checkout.editor)
    assert done.status == 2
    assert said in done.err
    assert not checkout.repository.exists(".hmz-mp")


@pytest.mark.slow
def test_items_that_no_worktree_has_are_said_before_any_turn(checkout: Checkout) -> None:
    checkout.repository.write(".gitignore", "ignored*\n")
    checkout.repository.write("ignored\n", "x\n")
    checkout.repository.write("new", "two\n")
    os.symlink(".", checkout.repository.place("link"))
    given = ("--worktree", "-a", checkout.editor, "--items", "-", "-0")
    done = checkout.project.exec(*given, stdin=b"f00\0ignored\n\0new\0link/f01")
    assert done.status == 2
    assert r"'ignored\n' will not be in the worktrees: git ignores it" in done.err
    checkout.assert_nothing_is_left()
    done = checkout.project.exec(*given, "--json", stdin=b"f00\0new\0link/f01\0a record")
    assert done.states == {"f00": "ok", "new": "ok", "link/f01": "ok", "a record": "failed"}


# Interrupted and killed.


def killed(checkout: Checkout, number: int) -> int:
    """Start a run, end it once six items are written down and two run; return its status."""
    agent = checkout.script("slow.py", HANGS) + f" {checkout.outside}"
    process = checkout.project.start(
        *("exec", "--worktree", "--include", "f0*", "--at-once", "2", "-a", agent)
    )
    try:
        until(lambda: len(list(checkout.outside.iterdir())) == 2)
        until(lambda: _ok_turns(checkout) == 6)
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return process.returncode


def _ok_turns(checkout: Checkout) -> int:
    database = checkout.project.root / ".hmz-mp" / "runs" / checkout.run_id() / "run.db"
    connection = sqlite3.connect(database)
    try:
        query = "SELECT count(*) FROM turns WHERE state = 'ok'"
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


def test_a_killed_run_is_cleared_and_its_patches_are_not_lost(checkout: Checkout) -> None:
    assert killed(checkout, signal.SIGKILL) == -signal.SIGKILL
    assert checkout.repository.status() == set()
    assert len(checkout.repository.worktrees()) == 2
    run_id = checkout.run_id()

    pretended = checkout.project.run("gc", "--dry-run")
    assert pretended.lines[0] == f"would remove 2 worktrees of run {run_id}"
    assert len(checkout.repository.worktrees()) == 2

    done = checkout.project.run("gc", "--json")
    assert done.status == 0, done
    assert done.rows == [
        {
            "run_id": run_id,
            "status": "removed",
            "worktrees": 2,
            "not_applied": [f"f0{number}" for number in range(6)],
            "problems": [],
        }
    ]
    checkout.assert_nothing_is_left()
    assert checkout.repository.status() == set()
    for file in checkout.outside.iterdir():
        until(lambda file=file: is_gone(int(file.read_text())))  # type: ignore[misc]

    again = checkout.project.run("gc")
    assert (again.status, again.err) == (0, "nothing is left behind here\n")

    applied = checkout.project.run("apply", "last")
    assert applied.status == 0, applied
    assert "6 patches applied to the checkout" in applied.err
    assert checkout.repository.status() == {f" M f0{number}".encode() for number in range(6)}
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_apply_clears_what_a_killed_run_left_too(checkout: Checkout) -> None:
    killed(checkout, signal.SIGKILL)
    checkout.repository.write("f03", "mine\n")
    applied = checkout.project.run("apply", checkout.run_id(), "--json")
    assert applied.status == 1, applied
    (told,) = applied.rows
    assert told["applied"] == 5
    (refused,) = told["not_applied"]
    assert refused["item_id"] == "f03"
    assert Path(refused["file"]).is_file()
    assert checkout.repository.read("f03") == b"mine\n"
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_an_interrupted_run_applies_nothing_by_itself(checkout: Checkout) -> None:
    assert killed(checkout, signal.SIGINT) == 130
    assert checkout.repository.status() == set()
    checkout.assert_nothing_is_left()
    assert checkout.project.run("apply", "last").status == 0
    assert len(checkout.repository.status()) == 6


@pytest.mark.slow
def test_gc_lets_a_run_alone_that_goes_on(checkout: Checkout) -> None:
    agent = checkout.script("slow.py", HANGS) + f" {checkout.outside}"
    process = checkout.project.start(
        *("exec", "--worktree", "--include", "f0[5-7]", "--at-once", "2", "-a", agent)
    )
    try:
        until(lambda: len(list(checkout.outside.iterdir())) == 2)
        done = checkout.project.run("gc")
        run_id = checkout.run_id()
        assert done.lines == [f"run {run_id} goes on: its worktrees are let alone"]
        assert len(checkout.repository.worktrees()) == 2
        applied = checkout.project.run("apply", "last")
        assert (applied.status, "goes on" in applied.err) == (2, True)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    checkout.assert_nothing_is_left()


@pytest.mark.slow
def test_apply_needs_a_run_that_had_worktrees(checkout: Checkout) -> None:
    checkout.project.exec("--include", "f00", "-a", "sh/true")
    done = checkout.project.run("apply", "last")
    assert (done.status, "had no worktrees" in done.err) == (2, True)


# Flows.

FLOW = """
import asyncio
from hmz_mp.agents import Prompt
from hmz_mp.flows import Agent, flow
from hmz_mp.worktrees import worktree

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    first, second = agent.new(worktree()), agent.new(worktree())
    here = agent.new(".")
    for step in ("one", "two"):
        await asyncio.gather(
            first.aturn(Prompt(f"a {step}", item_id=f"first {step}")),
            second.aturn(Prompt(f"b {step}", item_id=f"second {step}")),
        )
    await here.aturn("here x")
    await agent.abatch([f"batch{n} x" for n in range(3)], cwd=worktree())
"""

APPENDS = """
import sys
from pathlib import Path
name, word = sys.stdin.read().split()
with Path(name).open("a") as file:
    file.write(f"{word}\\n")
print(Path.cwd())
"""


def test_sessions_have_worktrees_of_their_own(checkout: Checkout) -> None:
    flow = checkout.project.root.parent / "sessions.py"
    flow.write_text(FLOW)
    agent = checkout.script("append.py", APPENDS).replace(" {path}", "")
    done = checkout.project.exec("-f", str(flow), "-a", agent, "--json", "--at-once", "4")
    assert done.status == 0, done
    answers = {row["item_id"]: row["answer"] for row in done.rows}
    assert answers["first one"] == answers["first two"]
    assert answers["first one"] != answers["second one"]
    assert answers["second one"] == answers["second two"]
    root = str(checkout.project.root)
    assert sorted(answer == root for answer in answers.values()) == [False] * 7 + [True]
    assert checkout.repository.read("a") == b"one\ntwo\n"
    assert checkout.repository.read("b") == b"one\ntwo\n"
    for name in ("batch0", "batch1", "batch2", "here"):
        assert checkout.repository.read(name) == b"x\n"
    checkout.assert_nothing_is_left()


CONVERSATION = """
from hmz_mp.agents import Prompt
from hmz_mp.flows import Agent, flow
from hmz_mp.worktrees import worktree

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    session = agent.new(worktree())
    seen = [await session.aturn(Prompt(text)) for text in ("cwd", "write said hello", "cwd")]
    history = await session.aturn("history")
    others = await agent.abatch([f"write one{n} {n}" for n in range(6)], cwd=worktree())
    print(seen[0] == seen[2], history.count("cwd"), len(others))
"""


def test_agents_that_converse_work_in_worktrees(checkout: Checkout) -> None:
    folder = checkout.project.root.parent
    fake_claude(folder)
    checkout.project.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    flow = folder / "conversation.py"
    flow.write_text(CONVERSATION)
    given = ("-f", str(flow), "-a", "claude/fake", "--at-once", "3")
    done = checkout.project.exec(*given)
    assert done.status == 0, done
    assert done.out == b"True 2 6\n"
    assert checkout.repository.read("said") == b"hello"
    assert all(checkout.repository.read(f"one{n}") == b"%d" % n for n in range(6))
    assert len(checkout.repository.status()) == 7
    checkout.assert_nothing_is_left()
