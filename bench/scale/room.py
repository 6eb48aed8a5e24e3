"""What turns and workers of a real pool take beside time: memory, descriptors, threads.

Imported by the command. Linux only: it reads ``/proc``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path
from typing import NamedTuple

from hmz_mp import Pool
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Lane, Timing
from hmz_mp.core.policy import Policy

__all__ = ["PerWorker", "of_a_queued_job", "of_a_queued_turn", "of_a_worker"]

PAGE = os.sysconf("SC_PAGE_SIZE")


class PerWorker(NamedTuple):
    """What one more worker takes."""

    descriptors: float  # of the caller's process
    zygote_descriptors: float
    threads: float  # of the caller's process
    memory: float  # bytes of the caller's process


class _Room(NamedTuple):
    descriptors: int
    zygote_descriptors: int
    threads: int
    memory: int


def of_a_queued_job(count: int) -> float:
    """Return the bytes of a job of the policy that waits in its lane."""
    policy, lane, timing = Policy(2), Lane(1, "call", (Gate("pool", 1),)), Timing()
    before = _resident()
    for number in range(count):
        policy.submit(Job(number + 1000, lane, timing), 0.0)
    return (_resident() - before) / count


def of_a_queued_turn(count: int) -> float:
    """Return the bytes of a pool's turn of which nothing has been shipped, its future included."""
    return asyncio.run(_queued(count))


async def _queued(count: int) -> float:
    async with Pool(1) as pool:
        await pool.run(abs, -1)
        before = _resident()
        turns = [pool.submit(abs, number) for number in range(count)]
        took = _resident() - before
        for turn in turns:
            turn.cancel()
    return took / count


def of_a_worker(few: int, many: int) -> PerWorker:
    """Return what a worker takes: of ``many`` at work beside ``few``."""
    one, other = asyncio.run(_working(few)), asyncio.run(_working(many))
    return PerWorker(*((b - a) / (many - few) for a, b in zip(one, other, strict=True)))


async def _working(workers: int) -> _Room:
    async with Pool(workers) as pool:
        turns = [pool.submit(time.sleep, 600) for _ in range(workers)]
        zygote = _parent(await _all_started(pool, workers))
        room = _Room(_descriptors("self"), _descriptors(zygote), _threads(), _resident())
        for turn in turns:
            turn.cancel()
    return room


async def _all_started(pool: Pool, workers: int) -> int:
    """Wait until all workers are there; return the pid of one."""
    for _ in range(3000):
        pids = [one.pid for one in pool.statistics().workers if one.pid and one.state == "ready"]
        if len(pids) == workers:
            return pids[0]
        await asyncio.sleep(0.02)
    raise TimeoutError(f"{workers} workers had not started in a minute")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _descriptors(process: int | str) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
