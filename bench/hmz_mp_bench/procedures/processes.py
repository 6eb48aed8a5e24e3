"""What workers are as processes: their memory when idle, and how soon a killed one is replaced."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anyio

from hmz_mp_bench import calls
from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import Figures, verify

__all__ = ["idle_memory", "killed"]

SETTLING = 0.5  # seconds until a worker that has nothing to do is idle
PATIENCE = 10.0  # seconds for an answer after a kill
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.MULTILINE)


async def meet(contender: Contender) -> set[int]:
    """Have every worker answer; return their pids."""
    directory = tempfile.mkdtemp(prefix="meet-")
    try:
        place = (directory, contender.workers)
        return set(await contender.gathered(calls.meet, [place] * contender.workers))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def idle_memory(contender: Contender, count: int) -> Figures:
    """Make some calls, wait until all is idle, and ask the kernel what each worker holds."""
    answers = await contender.gathered(calls.no_op, range(count))
    verify(answers == list(range(count)), "answers are not the items, in order")
    pids = await meet(contender)
    verify(len(pids) == contender.workers, "one process answered for two")
    await anyio.sleep(SETTLING)
    import psutil

    others = {child.pid for child in psutil.Process().children(recursive=True)} - pids
    return {
        "worker": _held(_PSS, pids) / len(pids),
        "private": _held(_PRIVATE, pids) / len(pids),
        "others": _held(_PSS, others),
    }


def _held(what: re.Pattern[str], pids: Iterable[int]) -> float:
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended, or is nothing but a zombie
            continue
        total += sum(map(int, what.findall(text)))
    return total * 1024.0


async def killed(contender: Contender, count: int) -> Figures:
    """Kill a worker in its call; time until every worker answers again."""
    await meet(contender)
    took = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(count):
            took.append(await _kill_one(contender, Path(directory, str(number))))
    return {
        "next": statistics.median(took), "least": min(took), "most": max(took), "calls": count,
    }  # fmt: skip


async def _kill_one(contender: Contender, note: Path) -> float:
    async def blocked() -> None:
        try:
            await contender.gathered(calls.pause, [str(note)])
        except Exception:
            ended.set()

    ended = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(blocked)
        await _until(note.exists, "a call had not begun")
        await anyio.sleep(0.02)  # so that no work of the call's own beginning is left
        began = time.perf_counter()
        os.kill(int(note.read_text()), signal.SIGKILL)
        with _bound("a call whose worker was killed had not ended"):
            await ended.wait()
        with _bound("not every worker answered after a kill"):
            await _answer_again(contender)
        answered = time.perf_counter()
    return answered - began


@contextlib.contextmanager
def _bound(what: str) -> Iterator[None]:
    try:
        with anyio.fail_after(PATIENCE):
            yield
    except TimeoutError:
        raise TimeoutError(f"{what} in {PATIENCE:.0f} s") from None


async def _until(condition: Callable[[], bool], what: str) -> None:
    with _bound(what):
        while not condition():  # noqa: ASYNC110  (another process makes it true)
            await anyio.sleep(0.001)


async def _answer_again(contender: Contender) -> None:
    while True:
        try:
            pids = await meet(contender)
        except Exception:
            await contender.repair()
            await anyio.lowlevel.checkpoint()
            continue
        verify(len(pids) == contender.workers, "one process answered for two")
        return
