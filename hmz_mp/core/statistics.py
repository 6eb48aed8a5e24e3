"""What a pool says of itself: counts, workers, widths."""

from __future__ import annotations

import os
import sys

import msgspec

from hmz_mp.core.cpus import read_text

__all__ = ["LimitStatistics", "Statistics", "WorkerStatistics", "resident_memory"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


class WorkerStatistics(msgspec.Struct, frozen=True):
    """One worker: ``turns`` were shipped to it so far; ``rss`` is its memory in bytes."""

    pid: int | None
    kind: str
    state: str
    turns: int
    rss: int


class LimitStatistics(msgspec.Struct, frozen=True):
    """One limit: its bounds, how much of it is ``used``, the most that ever was, who waits.

    ``width`` is how many turns its service bears at once, as far as is known now: with
    ``at_once="auto"``, and where it was too busy; else 0.
    """

    at_once: int
    per_minute: int
    used: int
    widest: int
    waiting: int
    width: int = 0


class Statistics(msgspec.Struct, frozen=True):
    """A pool at one moment. ``widest`` is the most turns that were ever in flight at once."""

    queued: int
    running: int
    done: int
    failed: int
    retried: int
    cancelled: int
    widest: int
    workers: list[WorkerStatistics]
    limits: dict[str, LimitStatistics]


def resident_memory(pid: int | None, *, tree: bool = False) -> int:
    """Return the resident memory of a process in bytes (with its descendants), 0 if it is gone."""
    if pid is None:
        return 0
    if not tree and sys.platform == "linux":
        words = read_text(f"/proc/{pid}/statm").split()
        return int(words[1]) * _PAGE if len(words) > 1 else 0
    import psutil  # a slow import, and most pools never ask

    try:
        process = psutil.Process(pid)
        processes = [process, *process.children(recursive=True)] if tree else [process]
    except psutil.Error:
        return 0
    total = 0
    for one in processes:
        try:
            total += one.memory_info().rss
        except psutil.Error:  # it ended in between
            continue
    return total
