"""Conversations that have ended and whose programs wait for the next, by what they were made for.

Owns how many wait, and for how long. A worker has one of these. What makes a program fit for the
next conversation is its backend's.
"""

from __future__ import annotations

import asyncio
import os
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

    # The whole state: what waits, the one that waits longest first, and what is being closed.
    def __init__(self, seconds: float = IDLE_SECONDS, ceiling: int = IDLE_CEILING) -> None:
        self._seconds = seconds
        self._ceiling = ceiling
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

    def put(self, key: Hashable, one: T) -> None:
        """Have one wait; the one that has waited longest goes when there are too many."""
        timer = asyncio.get_running_loop().call_later(self._seconds, self._drop, one)
        self._idle[one] = key, timer
        if len(self._idle) > self._ceiling:
            self._drop(next(iter(self._idle)))

    def _drop(self, one: T) -> None:
        found = self._idle.pop(one, None)
        if found is not None:
            found[1].cancel()
            self._close(one)

    def _close(self, one: T) -> None:
        closing = asyncio.get_running_loop().create_task(one.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
