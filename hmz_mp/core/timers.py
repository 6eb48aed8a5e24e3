"""Timers of the policy: a heap of what is due when. It has no clock."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, JobState

__all__ = ["Entry", "Timers"]


class Entry(NamedTuple):
    """One timer. It is about a job's shipment ``ticket`` (0: the job as a whole), or a gate."""

    time: float
    order: int
    about: Job | Gate
    ticket: int
    seconds: float | None


class Timers:
    """A heap of timers; those of jobs that have ended are dropped when they come up."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._order = 0

    def add(self, time: float, about: Job | Gate, ticket: int, seconds: float | None) -> None:
        """Set a timer."""
        self._order += 1
        heappush(self._heap, Entry(time, self._order, about, ticket, seconds))

    def next_time(self) -> float | None:
        """Return when the next timer that still matters is due, or ``None``."""
        heap = self._heap
        while heap and _is_over(heap[0]):
            heappop(heap)
        return heap[0].time if heap else None

    def due(self, now: float) -> Iterator[Entry]:
        """Take out what is due."""
        while (time := self.next_time()) is not None and time <= now:
            yield heappop(self._heap)


def _is_over(entry: Entry) -> bool:
    about = entry.about
    if isinstance(about, Gate):
        return False
    return about.state is JobState.DONE or bool(entry.ticket and about.ticket != entry.ticket)
