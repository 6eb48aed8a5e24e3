"""Timers of the policy: a heap of what is due when. It has no clock."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, JobState

__all__ = ["Entry", "Timers"]


SWEEP = 1024  # timers from which those of jobs that have ended are looked for
SWEPT = 4  # that are looked at when one is set


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
    those behind the timer of a job that takes long would stay as long as that. A sweep goes on
    with each timer that is set, some at a time, so that no step of the loop takes long for it.
    """

    __slots__ = ("_enough", "_heap", "_old", "_order")

    # The whole state: a heap, one that is being swept into it, how many there are when the next
    # sweep begins, and the last number.
    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._old: list[Entry] = []
        self._enough = SWEEP
        self._order = 0

    def __len__(self) -> int:
        """How many are kept, those of jobs that have ended among them."""
        return len(self._heap) + len(self._old)

    def add(self, time: float, about: Job | Gate, ticket: int, seconds: float | None) -> None:
        """Set a timer."""
        self._order += 1
        heappush(self._heap, Entry(time, self._order, about, ticket, seconds))
        if self._old:
            self._sweep()
        elif len(self._heap) >= self._enough:
            self._old, self._heap = self._heap, []
            self._enough = 2 * len(self._old)

    def _sweep(self) -> None:
        old, heap = self._old, self._heap
        for _ in range(min(SWEPT, len(old))):
            entry = old.pop()  # without its last a heap is still one
            if not _is_over(entry):
                heappush(heap, entry)
        if not old:
            self._enough = max(SWEEP, 2 * len(heap))

    def next_time(self) -> float | None:
        """Return when the next timer that still matters is due, or ``None``."""
        heap = self._first()
        return heap[0].time if heap else None

    def due(self, now: float) -> Iterator[Entry]:
        """Take out what is due."""
        while (heap := self._first()) and heap[0].time <= now:
            yield heappop(heap)

    def _first(self) -> list[Entry]:
        """Return the heap that has the next timer that still matters; an empty one if none does."""
        heap, old = self._heap, self._old
        while heap and _is_over(heap[0]):
            heappop(heap)
        while old and _is_over(old[0]):
            heappop(old)
        return old if old and (not heap or old[0] < heap[0]) else heap


def _is_over(entry: Entry) -> bool:
    about = entry.about
    if isinstance(about, Gate):
        return False
    return about.state is JobState.DONE or bool(entry.ticket and about.ticket != entry.ticket)
