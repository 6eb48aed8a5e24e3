"""Timers of the policy: a heap of what is due when. It has no clock."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, JobState

__all__ = ["Entry", "Timers"]


SWEEP = 1024  # timers from which those of jobs that have ended are looked for


class Entry(NamedTuple):
    """One timer. It is about a job's shipment ``ticket`` (0: the job as a whole), or a gate."""

    time: float
    order: int
    about: Job | Gate
    ticket: int
    seconds: float | None


class Timers:
    """A heap of timers; those of jobs that have ended are dropped when they come up.

    They are swept out too, whenever there are twice as many timers as the last sweep left: else
    those behind the timer of a job that takes long would stay as long as that.
    """

    __slots__ = ("_heap", "_order", "_sweep")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._order = 0
        self._sweep = SWEEP  # how many there are when the next sweep is due

    def __len__(self) -> int:
        """How many are kept, those of jobs that have ended among them."""
        return len(self._heap)

    def add(self, time: float, about: Job | Gate, ticket: int, seconds: float | None) -> None:
        """Set a timer."""
        self._order += 1
        heappush(self._heap, Entry(time, self._order, about, ticket, seconds))
        if len(self._heap) >= self._sweep:
            self._heap = [entry for entry in self._heap if not _is_over(entry)]
            heapify(self._heap)
            self._sweep = max(SWEEP, 2 * len(self._heap))

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
