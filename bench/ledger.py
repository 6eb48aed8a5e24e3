"""What a run's ledger costs: ``python -m bench.ledger [--items N] [--pairs N]``.

The same ``hmz-mp exec`` with its ledger, and where none can be made, in turns, each in a process of
its own; then what the ledger has on disk, and how long each view of it takes. The items are records
of some 30 characters, and so are their answers: what is measured is the ledger, not a tool.
"""

from __future__ import annotations

import argparse
import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROGRAM = [sys.executable, "-m", "hmz_mp"]
TOOL = "def answer(prompt):\n    return prompt\n"
VIEWS = ("runs", "show last", "report last", "trace last", "export last -o rows.jsonl")


class Took(NamedTuple):
    """Seconds that a command took, by the clock and of processors."""

    wall: float
    cpu: float


def timed(command: list[str], directory: Path) -> Took:
    """Run a command that has to succeed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [*PROGRAM, *command], cwd=directory, env=environment, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, used)


def watched(directory: Path, words: str) -> Took:
    """Open the full screen on a terminal, leave it once it shows ``words``."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "xterm"}
    with subprocess.Popen(
        [*PROGRAM, "watch", "last"],
        cwd=directory,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        shown = b""
        while words.encode() not in shown:
            shown += os.read(controller, 65536)
        wall = time.perf_counter() - began
        os.write(controller, b"q")
        with suppress(OSError):  # the terminal's other end is closed
            while os.read(controller, 65536):
                pass
        process.wait()
    os.close(controller)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, used)


def prepare(directory: Path, items: int, *, ledger: bool) -> Path:
    """Make a directory to start a run in; without a ``ledger``, none can be made there."""
    directory.mkdir()
    (directory / "tool.py").write_text(TOOL)
    lines = (f"record {number:06} of so many\n" for number in range(items))
    (directory / "items.txt").write_text("".join(lines))
    if not ledger:
        (directory / ".hmz-mp").touch()
    return directory


def compare(start: Path, items: int, pairs: int) -> tuple[Path, list[Took], list[Took]]:
    """Run with and without, in turns; returns where the last ledger is, and what they took."""
    command = ["exec", "-a", "tool/tool.py:answer", "--items", "items.txt", "--quiet"]
    with_one, without = [], []
    directory = start
    for number in range(pairs):
        directory = prepare(start / f"with{number}", items, ledger=True)
        with_one.append(timed(command, directory))
        without.append(timed(command, prepare(start / f"without{number}", items, ledger=False)))
    return directory, with_one, without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.ledger")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as start:
        directory, with_one, without = compare(Path(start), given.items, given.pairs)
        print(f"{given.items:,} items, {given.pairs} pairs; load {os.getloadavg()[0]:.1f}\n")
        print("| | with its ledger | without | difference for an item |\n|---|---|---|---|")
        for place, name in enumerate(("by the clock", "of processors")):
            one = statistics.median(took[place] for took in with_one)
            other = statistics.median(took[place] for took in without)
            each = (one - other) / given.items * 1e6
            print(f"| {name} | {one:.2f} s | {other:.2f} s | {each:.1f} µs |")
        (database,) = directory.glob(".hmz-mp/runs/*/run.db")
        size = database.stat().st_size
        print(f"\non disk: {size / 1e6:.1f} MB, {size / given.items:.0f} bytes an item\n")
        print("| view | by the clock | of processors |\n|---|---|---|")
        for view in VIEWS:
            took = [timed(view.split(), directory) for _ in range(given.pairs)]
            print(row(view, took))
        done = f"{given.items:,} of {given.items:,} done"
        print(row("watch last", [watched(directory, done) for _ in range(given.pairs)]))


def row(view: str, took: list[Took]) -> str:
    wall, cpu = min(one.wall for one in took), min(one.cpu for one in took)
    return f"| `{view}` | {wall:.2f} s | {cpu:.2f} s |"


if __name__ == "__main__":
    main()
