"""Agents and runs: sessions by the thousand, and ``hmz-mp exec`` with its ledger on."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import Figures, resident, verify

__all__ = ["opened", "over_files", "sessions"]

LINES = 3  # of each small file


async def sessions(contender: Contender, count: int) -> Figures:
    """Open sessions of an agent and give each one turn, all at once."""
    warm_up = await contender.session_turns(100)
    verify(warm_up == [str(number) for number in range(100)], "the warm-up")
    began = time.perf_counter()
    answers = await contender.session_turns(count)
    seconds = time.perf_counter() - began
    verify(answers == [str(number) for number in range(count)], "a session's answer")
    return {"all": seconds, "call": seconds / count, "calls": count}


async def opened(contender: Contender, count: int) -> Figures:
    """Open sessions and use none; note the bytes that each takes."""
    contender.open_sessions(1000)
    gc.collect()
    before = resident()
    began = time.perf_counter()
    kept = contender.open_sessions(count)
    seconds = time.perf_counter() - began
    held = resident() - before
    verify(len(kept) == count, f"{len(kept)} sessions were opened")
    return {"all": seconds, "each": held / count, "calls": count}


async def over_files(contender: Contender, count: int) -> Figures:
    """Run a command over many small files, as a process of its own."""
    with _small_files(count) as directory:
        seconds = _timed(contender.command(count * LINES), directory)
        contender.check(directory, count, str(LINES))
    return {"all": seconds, "call": seconds / count, "calls": count}


def _timed(arguments: list[str], directory: str) -> float:
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=directory, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    said = ended.stdout.decode(errors="replace").strip()
    verify(not ended.returncode, f"exit status {ended.returncode}: {said[-300:]}")
    return seconds


@contextlib.contextmanager
def _small_files(count: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="small-files-") as directory:
        for number in range(count):
            with open(f"{directory}/{number:06}.txt", "w") as file:  # noqa: PTH123  (20,000 times)
                file.write(f"file {number}\n" * LINES)
        yield directory
