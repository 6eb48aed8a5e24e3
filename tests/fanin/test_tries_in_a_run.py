"""`fan_out` with a `Retry` in a flow of ``hmz-mp exec``: one row for an item, however often it was
tried."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from tests.cli.processes import Done, Project
from tests.waiting import until

FLOW = """
from hmz_mp.agents import Prompt
from hmz_mp.core.ambient import current_run
from hmz_mp.fanin import Retry, ask, fan_out
from hmz_mp.flows import Agent, flow

@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    times, backoff, how = task.split()

    def in_a_thread(item):
        return agent(about(item, "look"))

    async def in_a_session(item):
        session = agent.new()
        await session.aturn(about(item, "open"))
        return await session.aturn(about(item, "look"))

    works = {"asked": ask(agent, "look", schema=None), "thread": in_a_thread,
             "session": in_a_session}
    items = current_run().items()
    print(await fan_out(items, works[how], on_failure=Retry(int(times), float(backoff))))

def about(item, text):
    return Prompt(text, item_id=item.item_id, path=item.path)
"""
# How often a file is tried before it is answered is in it; how often it was is in another.
TOOL = '''
import os
from pathlib import Path

def flaky(path, item_id, prompt):
    """Fail as often as the file says."""
    if prompt == "open":
        return "opened"
    path = Path(os.fsdecode(path))
    with Path(os.environ["COUNTS"], item_id).open("a") as file:
        file.write("x")
    tries = len(Path(os.environ["COUNTS"], item_id).read_text())
    if tries <= int(path.read_text()):
        raise ValueError(f"{item_id}: no luck at try {tries}")
    return f"{item_id} at try {tries}"
'''


class Flaky:
    """A project whose items fail for some tries."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder)
        self.counts = folder / "counts"
        self.counts.mkdir()
        self.project.environment["COUNTS"] = str(self.counts)
        (folder / "flow.py").write_text(FLOW)
        (folder / "flaky.py").write_text(TOOL)
        self.flow = str(folder / "flow.py")
        self.agent = f"tool/{folder / 'flaky.py'}:flaky"

    def items(self, **failures: int) -> None:
        for name, times in failures.items():
            self.project.write(name, f"{times}")

    def command(self, task: str, *more: str) -> list[str]:
        return ["exec", "-f", self.flow, "-a", self.agent, "--json", *more, task]

    def exec(self, task: str, *more: str) -> Done:
        return self.project.run(*self.command(task, *more))

    def tries(self) -> dict[str, int]:
        return {one.name: len(one.read_text()) for one in sorted(self.counts.iterdir())}

    def ledger(self) -> list[tuple[str, str, int]]:
        with open_run(runs_directory(self.project.root), "last") as run:
            return [(one.item_id, one.state, one.attempts) for one in run.turns()]

    def shown(self, item_id: str) -> dict[str, Any]:
        (row,) = self.project.run("show", "last", item_id, "--json").rows
        return row

    def await_state(self, item_id: str, state: str) -> None:
        def is_so() -> bool:
            return any(row[:2] == (item_id, state) for row in self.ledger())

        until(lambda: any(runs_directory(self.project.root).glob("*/run.db")))
        until(is_so)


@pytest.fixture
def flaky(tmp_path: Path) -> Flaky:
    return Flaky(tmp_path)


def test_an_item_that_is_answered_at_its_second_try_is_ok(flaky: Flaky) -> None:
    flaky.items(a=0, b=1, c=0)
    done = flaky.exec("1 0 asked")
    assert done.status == 0, done
    rows = [(row["item_id"], row["status"], row["attempts"], row["answer"]) for row in done.rows]
    assert rows == [
        ("a", "ok", 1, "a at try 1"),
        ("b", "ok", 2, "b at try 2"),
        ("c", "ok", 1, "c at try 1"),
    ]
    assert "failed:" not in done.err
    assert flaky.ledger() == [("a", "ok", 1), ("b", "ok", 2), ("c", "ok", 1)]
    assert "tried" not in flaky.shown("a")
    row = flaky.shown("b")
    assert (row["status"], row["error"]) == ("ok", None)
    (tried,) = row["tried"]
    assert tried.splitlines()[0] == "ValueError: b: no luck at try 1"
    assert "in flaky" in tried  # its traceback
    text = flaky.project.run("show", "last", "b").out.decode()
    assert "  attempts  2\n" in text
    assert "earlier try 1:\nValueError: b: no luck at try 1\n" in text
    assert "3 ok" in flaky.project.run("show", "last").out.decode()
    # It goes on as one that is answered.
    again = flaky.project.run("exec", "--resume", "last", "--json")
    assert again.status == 0, again
    assert flaky.tries() == {"a": 1, "b": 2, "c": 1}
    assert [row["answer"] for row in again.rows] == [row["answer"] for row in done.rows]
    failed = flaky.project.run("exec", "--retry-failed", "last", "--json")
    assert failed.status == 0, failed
    assert flaky.tries() == {"a": 1, "b": 2, "c": 1}


def test_an_item_that_fails_each_time_has_failed_once(flaky: Flaky) -> None:
    flaky.items(a=9, b=0)
    done = flaky.exec("2 0 thread", "--max-failures", "2")
    assert done.status == 1, done
    assert done.states == {"a": "failed", "b": "ok"}
    rows = {row["item_id"]: row for row in done.rows}  # two threads ask, in whatever order
    assert {item_id: row["attempts"] for item_id, row in rows.items()} == {"a": 3, "b": 1}
    assert "no luck at try 3" in rows["a"]["error"]
    assert sorted(flaky.ledger()) == [("a", "failed", 3), ("b", "ok", 1)]
    tried = [one.splitlines()[0] for one in flaky.shown("a")["tried"]]
    assert tried == ["ValueError: a: no luck at try 1", "ValueError: a: no luck at try 2"]
    # Only it runs again, for as many tries.
    flaky.items(a=4)
    again = flaky.project.run("exec", "--retry-failed", "last", "--json")
    assert again.status == 0, again
    assert flaky.tries() == {"a": 5, "b": 1}
    assert sorted(flaky.ledger()) == [("a", "ok", 2), ("b", "ok", 1)]
    tried = [one.splitlines()[0] for one in flaky.shown("a")["tried"]]
    assert tried == ["ValueError: a: no luck at try 4"]


def test_killed_between_two_tries_it_is_tried_again(flaky: Flaky) -> None:
    flaky.items(a=1, b=2)
    process = flaky.project.start(*flaky.command("1 600 session"))
    try:
        flaky.await_state("a", "failed")
        flaky.await_state("b", "failed")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=50)
    killed = [("a", "ok", 1), ("a", "failed", 1), ("b", "ok", 1), ("b", "failed", 1)]
    assert sorted(flaky.ledger()) == sorted(killed)
    # "a" is answered, "b" once more not, at the first try of this execution.
    done = flaky.project.run("exec", "--resume", "last", "--json", "2 0 session")
    assert done.status == 0, done
    assert flaky.tries() == {"a": 2, "b": 3}
    ended = [("a", "ok", 1), ("a", "ok", 1), ("b", "ok", 2), ("b", "ok", 2)]
    assert sorted(flaky.ledger()) == ended
    assert sorted((row["item_id"], row["status"]) for row in done.rows) == [
        *[("a", "ok")] * 2,
        *[("b", "ok")] * 2,
    ]
    again = flaky.project.run("exec", "--resume", "last", "--quiet")
    assert again.status == 0, again
    assert flaky.tries() == {"a": 2, "b": 3}


def test_interrupted_between_two_tries_it_has_failed(flaky: Flaky) -> None:
    flaky.items(a=0, b=1)
    process = flaky.project.start(*flaky.command("1 600 asked"), stderr=subprocess.PIPE)
    try:
        flaky.await_state("a", "ok")
        flaky.await_state("b", "failed")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # once more: at once
        out, err = process.communicate(timeout=50)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["item_id"], row["status"]) for row in rows] == [("a", "ok"), ("b", "failed")]
    assert "no luck at try 1" in rows[1]["error"]
    assert flaky.ledger() == [("a", "ok", 1), ("b", "failed", 1)]
