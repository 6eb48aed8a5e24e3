"""Conversations that have ended and whose programs wait for the next, by what they were made for.

Owns how many wait, and for how long. A worker has one of these. What makes a program fit for the
next conversation is its backend's.

To start a program takes a second of a CPU, a new conversation with one that is there a tenth of
that. So where programs have come back, who finds none waits for the next for about as long as a
start takes, and starts one then: short turns share the programs that there are, and for long ones
the wait is nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["IDLE_CEILING", "IDLE_SECONDS", "Idle", "Warm"]

_PROGRAM_BYTES = 200 << 20  # what a program takes, about
# Conversations that wait in one worker: what half of the machine's memory would hold.
IDLE_CEILING = max(
    8, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // _PROGRAM_BYTES
)
IDLE_SECONDS = 20.0  # a batch's turns follow each other faster than that
PATIENCE = 1.5  # times as long as a start takes
START_SECONDS = 1.0  # that a start takes until one was seen


class Idle(Protocol):
    """What can wait."""

    @property
    def alive(self) -> bool:
        """Whether its program still runs."""

    async def close(self) -> None:
        """End its program."""


T = TypeVar("T", bound=Idle)


class Warm(Generic[T]):
    """The waiting conversations of one backend in this worker."""

    # The whole state: what waits, the one that waits longest first, and what is being closed; who
    # wants one for what, and how long; how many are out, and of what some have come back.
    def __init__(
        self,
        seconds: float = IDLE_SECONDS,
        ceiling: int = IDLE_CEILING,
        patience: float = PATIENCE * START_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._ceiling = ceiling
        self.patience = patience
        self._wanting: dict[asyncio.Future[T | None], Hashable] = {}
        self._out: Counter[Hashable] = Counter()
        self._came_back: set[Hashable] = set()
        self._idle: dict[T, tuple[Hashable, asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: Hashable) -> T | None:
        """Return the last that was put here for ``key`` and still runs, or ``None``."""
        for one in reversed([one for one, (made_for, _) in self._idle.items() if made_for == key]):
            _, timer = self._idle.pop(one)
            timer.cancel()
            if one.alive:
                return one
            self._close(one)
        return None

    async def obtain(self, key: Hashable) -> T | None:
        """Return one that was put here for ``key``, or ``None``: it is time to start one.

        Either is followed by `put` or `gone`.
        """
        one = self.take(key)
        if one is None and key in self._came_back and self._out[key]:
            one = await self._next(key)
        self._out[key] += 1
        return one

    async def _next(self, key: Hashable) -> T | None:
        """Return the next that comes back for ``key``, or ``None`` if that takes too long."""
        loop = asyncio.get_running_loop()
        wanted: asyncio.Future[T | None] = loop.create_future()
        self._wanting[wanted] = key
        late = loop.call_later(self.patience, _give_up, wanted)
        try:
            return await wanted
        except asyncio.CancelledError:
            if wanted.done() and not wanted.cancelled() and (one := wanted.result()) is not None:
                self._offer(key, one)  # it came in the same step
            raise
        finally:
            late.cancel()
            del self._wanting[wanted]

    def note_start(self, seconds: float) -> None:
        """Take note of how long a start took: longer when the machine is busy."""
        self.patience += 0.3 * (PATIENCE * seconds - self.patience)

    def gone(self, key: Hashable) -> None:
        """Take note that what was obtained or started for ``key`` does not come back."""
        self._count_in(key)
        if key not in self._out:
            self._came_back.discard(key)
            for wanted in [one for one, what in self._wanting.items() if what == key]:
                _give_up(wanted)

    def put(self, key: Hashable, one: T) -> None:
        """Take one back, for the next who wants it."""
        if key in self._out:
            self._count_in(key)
            self._came_back.add(key)
        self._offer(key, one)

    def _count_in(self, key: Hashable) -> None:
        self._out[key] -= 1
        if self._out[key] <= 0:
            del self._out[key]

    def _offer(self, key: Hashable, one: T) -> None:
        for wanted, what in self._wanting.items():
            if what == key and not wanted.done():
                wanted.set_result(one)
                return
        self._wait(key, one)

    def _wait(self, key: Hashable, one: T) -> None:
        """Have one wait; the one that has waited longest goes when there are too many."""
        timer = asyncio.get_running_loop().call_later(self._seconds, self._drop, one)
        self._idle[one] = key, timer
        if len(self._idle) > self._ceiling:
            self._drop(next(iter(self._idle)))

    def _drop(self, one: T) -> None:
        found = self._idle.pop(one, None)
        if found is not None:
            key, timer = found
            timer.cancel()
            if key not in self._out and all(made_for != key for made_for, _ in self._idle.values()):
                self._came_back.discard(key)
            self._close(one)

    def _close(self, one: T) -> None:
        closing = asyncio.get_running_loop().create_task(one.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _give_up(wanted: asyncio.Future[T | None]) -> None:
    if not wanted.done():
        wanted.set_result(None)
