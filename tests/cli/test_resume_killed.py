"""Killed with SIGKILL at random moments, and resumed: nothing that was answered runs again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from tests.cli.processes import Project

KILLS = int(os.environ.get("HMZ_MP_KILLS", "50"))
TOOL = '''
import os, time

def counted(path, item_id):
    """Say that it runs, in a file of its own, before anything else."""
    file = os.open(os.environ["COUNTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (item_id + "\\n").encode())
    os.close(file)
    time.sleep(0.002)
    return item_id.upper()
'''


class Victim:
    """A run of many items that is killed again and again."""

    def __init__(self, project: Project, items: int) -> None:
        self.project = project
        self.items = [f"items/{number:04}.txt" for number in range(items)]
        for item in self.items:
            project.write(item, f"{item}\n")
        self.counts = project.root.parent / "counts"
        self.counts.touch()
        project.environment["COUNTS"] = str(self.counts)
        (project.root.parent / "counted.py").write_text(TOOL)
        self.agent = f"tool/{project.root.parent / 'counted.py'}:counted"
        self.known: dict[str, int] = {}

    def begun(self) -> Counter[str]:
        """Return how often the tool ran for each item."""
        return Counter(self.counts.read_text().splitlines())

    def lines(self) -> int:
        return self.counts.stat().st_size // (len(self.items[0]) + 1)

    def answered(self) -> set[str]:
        """Return the items that the ledger has an answer of."""
        try:
            with open_run(runs_directory(self.project.root), "last") as run:
                rows = list(run.columns(("item_id", "state")))
        except BadInput:  # it was killed before there was a ledger
            return set()
        found = Counter(item_id for item_id, _ in rows)
        assert max(found.values(), default=1) == 1, found.most_common(3)
        return {item_id for item_id, state in rows if state == "ok"}

    def command(self) -> list[str]:
        """Return the command that begins the run, or goes on with it."""
        if not any(runs_directory(self.project.root).glob("*/run.db")):
            return ["exec", "-a", self.agent, "--include", "items/*", "--at-once", "4", "--quiet"]
        return ["exec", "--resume", "last", "--quiet"]

    def kill_once(self, chance: random.Random) -> None:
        """Start the run or go on with it, and kill it at a moment left to chance."""
        before = self.lines()
        process = self.project.start(*self.command(), stderr=subprocess.DEVNULL)
        try:
            if chance.random() < 0.25:
                self.await_end(process, chance.uniform(0.0, 2.0))
            else:
                self.await_lines(process, before + chance.randrange(len(self.items) // 30))
                self.await_end(process, chance.uniform(0.0, 0.02))
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=50)
        self.check()

    def await_lines(self, process: subprocess.Popen[bytes], lines: int) -> None:
        deadline = time.monotonic() + 50
        while self.lines() < lines and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.0005)

    def await_end(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def check(self) -> None:
        """Nothing that was known to be answered has begun again since."""
        begun = self.begun()
        assert {item: begun[item] for item in self.known} == self.known
        self.known |= {item: begun[item] for item in self.answered()}

    def end(self, kills: int) -> None:
        done = self.project.run(*self.command())
        assert done.status == 0, done
        self.check()
        assert self.known.keys() == set(self.items)
        with open_run(runs_directory(self.project.root), "last") as run:
            rows = [(turn.item_id, turn.state, turn.answer) for turn in run.turns()]
            assert run.summary.status == "ok"
        assert rows == [(item, "ok", item.upper()) for item in self.items]
        extra = sum(self.begun().values()) - len(self.items)
        assert extra <= 16 * kills, extra  # those in flight, and answers of the last moment


def kill_and_resume(project: Project, items: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    victim = Victim(project, items)
    for _ in range(kills):
        victim.kill_once(chance)
    victim.end(kills)


def test_a_run_that_is_killed_again_and_again_ends(project: Project) -> None:
    kill_and_resume(project, 60, 2, seed=11)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_thousand_items_and_many_kills(project: Project) -> None:
    kill_and_resume(project, 2000, KILLS, seed=7)
