"""Where the items of a `map` come from: iterables taken together as by ``zip``.

Sync iterables are read in place, for a bounded time. Where one is async, a task of its own reads
ahead, as far as was asked for last, so that answers do not wait for the next item. Of one iterable
the items are its values, of several they are tuples. Imported by `mapping`; knows nothing of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from hmz_mp.core.loop import Driver

__all__ = ["Source", "source_of"]

_QUICK = frozenset({list, tuple, range, str, bytes, dict, set, frozenset})  # reading runs no code
_ALL = 1 << 62
_STEP_MOST = 32  # items of others between looks at the clock
_READ_SECONDS = 0.001  # how long reading may keep the loop, but for one item that takes longer


def source_of(iterables: tuple[Any, ...], driver: Driver) -> Source:
    """Return the source of these iterables' items."""
    if any(hasattr(one, "__aiter__") for one in iterables):
        return _ReadAhead(iterables, driver)
    return _ReadInPlace(iterables)


class Source:
    """Items, some at a time.

    ``waits`` if it may have none yet, and says by ``on_news`` when it has; ``over`` once there is
    nothing more; ``slow`` if the last `take` was cut short, since reading took long.
    """

    waits = False

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self.over = False
        self.slow = False
        self.on_news: Callable[[], None] = lambda: None

    def take(self, count: int) -> list[Any]:
        """Return the next items, at most ``count``; none when there are none (yet)."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise what reading raised, if it did."""
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Read no more."""


class _ReadInPlace(Source):
    """Sync iterables."""

    # The state: the items, and how many of them are read between looks at the clock.
    def __init__(self, iterables: tuple[Any, ...]) -> None:
        super().__init__()
        several = len(iterables) > 1
        self._items: Iterator[Any] = (
            zip(*iterables, strict=False) if several else iter(iterables[0])
        )
        quick = _QUICK.issuperset(map(type, iterables))
        self._step = _ALL if quick else 1

    def take(self, count: int) -> list[Any]:
        """Return the next items, at most ``count``; none when there are no more."""
        items: list[Any] = []
        if self.over:
            return items
        until = monotonic() + _READ_SECONDS
        self.slow = False
        try:
            while (missing := count - len(items)) and not self.slow:
                step = min(missing, self._step)
                before = len(items)
                # What was read before an iterable raised is in there then.
                items.extend(islice(self._items, step))
                if len(items) - before < step:
                    self.over = True
                    break
                self._look_at_the_clock(until)
        except Exception as error:  # raised once the answers before it are out
            self._error = error
            self.over = True
        return items

    def _look_at_the_clock(self, until: float) -> None:
        if self._step < _ALL:
            self.slow = monotonic() > until
            self._step = max(1, self._step // 4) if self.slow else min(self._step * 2, _STEP_MOST)


class _ReadAhead(Source):
    """Iterables of which one is async, read by a task from the first `take` on."""

    waits = True

    # The whole state: the items read and not taken, how many there may be of them; the task that
    # reads, by its scope, whether it rests until some are taken, and whether it is to end then.
    def __init__(self, iterables: tuple[Any, ...], driver: Driver) -> None:
        super().__init__()
        self._driver = driver
        self._iterators = [
            aiter(one) if hasattr(one, "__aiter__") else iter(one) for one in iterables
        ]
        self._items: list[Any] = []
        self._most = 1
        self._taken = anyio.Event()
        self._resting = self._closing = False
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._unclean: Exception | None = None  # what closing them raised

    def take(self, count: int) -> list[Any]:
        """Return the items that were read, and have as many read as are wanted now."""
        if self._scope is None:
            self._scope = anyio.CancelScope()
            self._driver.spawn(self._read)
        items, self._items = self._items[:count], self._items[count:]
        self._most = max(1, count)
        if items:
            self._taken.set()
        return items

    async def _read(self) -> None:
        try:
            assert self._scope is not None
            with self._scope:
                try:
                    await self._read_on()
                finally:
                    # Here: an async generator has to be left in the task that it ran in, and by
                    # no scope that lies inside of those that it has opened.
                    await self._leave()
        except Exception as error:  # raised once the answers before it are out
            self._error = error
        finally:
            self.over = True
            self._ended.set()
            self.on_news()

    async def _read_on(self) -> None:
        until = monotonic() + _READ_SECONDS
        single = len(self._iterators) == 1
        while (values := await self._next()) is not None:
            self._items.append(values[0] if single else tuple(values))
            self.on_news()
            if len(self._items) >= self._most:
                self._taken, self._resting = anyio.Event(), True
                await self._taken.wait()
                self._resting = False
                if self._closing:
                    return
                until = monotonic() + _READ_SECONDS
            elif monotonic() > until:  # one whose items need no waiting would keep the loop
                await anyio.lowlevel.checkpoint()
                until = monotonic() + _READ_SECONDS

    async def _next(self) -> list[Any] | None:
        values = []
        for one in self._iterators:
            try:
                values.append(await anext(one) if hasattr(one, "__anext__") else next(one))
            except (StopIteration, StopAsyncIteration):
                return None
        return values

    async def _leave(self) -> None:
        """Close the async generators: what they do at their end may need the loop."""
        for one in self._iterators:
            close = getattr(one, "aclose", None)
            try:
                if close is not None:
                    await close()
            except Exception as error:
                self._unclean = error

    async def close(self) -> None:
        """Stop the task, and wait for its end. Raises what closing a generator raised."""
        if self._scope is None:
            return
        self._closing = True
        if self._resting:  # a generator that waits at a yield is closed, not cancelled
            self._taken.set()
        else:
            self._scope.cancel()
        try:
            await self._ended.wait()
        finally:
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
        if self._unclean is not None:
            raise self._unclean
