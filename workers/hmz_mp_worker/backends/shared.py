"""Programs that hold many conversations at once, by what they were started for.

Owns who uses which: each is started once, and ended when nobody has used it for a while. Many turns
begin at the same time, so a start is waited for by all. What a program is, and how it is started,
is its backend's.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Hashable

__all__ = ["IDLE_SECONDS", "Held", "Shared"]

IDLE_SECONDS = 20.0  # a batch's turns follow each other faster than that


class Held(Protocol):
    """A program that can be shared."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    async def close(self) -> None:
        """End it, politely."""

    async def end(self) -> None:
        """End it, now."""


T = TypeVar("T", bound=Held)


class _Place(Generic[T]):
    """Where the program of one key is, once it has started."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.program: T | None = None
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None


class Shared(Generic[T]):
    """The programs of one backend in this worker."""

    # The whole state: the places, and what is being closed.
    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._places: dict[Hashable, _Place[T]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def acquire(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> T:
        """Have the program of ``key`` until `release`. Raises what ``start`` does."""
        place = self._places.setdefault(key, _Place())
        place.users += 1
        if place.idle is not None:
            place.idle.cancel()
            place.idle = None
        try:
            async with place.lock:
                if place.program is None or not place.program.alive:
                    if place.program is not None:
                        await place.program.end()
                    place.program = await start()
                return place.program
        except BaseException:
            self.release(key)
            raise

    def release(self, key: Hashable, *, at_once: bool = False) -> None:
        """Have it no longer. ``at_once`` ends it now, if nobody else has it."""
        place = self._places[key]
        place.users -= 1
        if not place.users:
            seconds = 0.0 if at_once else self._idle_seconds
            place.idle = asyncio.get_running_loop().call_later(seconds, self._drop, key)

    @asynccontextmanager
    async def use(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        """Have the program of ``key`` for a while. Raises what ``start`` does."""
        program = await self.acquire(key, start)
        try:
            yield program
        finally:
            self.release(key)

    def users(self, key: Hashable) -> int:
        """Return how many have it."""
        place = self._places.get(key)
        return place.users if place is not None else 0

    def _drop(self, key: Hashable) -> None:
        place = self._places.pop(key)
        if place.program is not None:
            closing = asyncio.get_running_loop().create_task(place.program.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
