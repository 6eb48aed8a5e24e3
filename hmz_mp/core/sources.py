"""Where the items of a `map` come from: iterables taken together as by ``zip``, read one by one.

Sync iterables are read in place. Where one is async, a task of its own reads, one item ahead, so
that answers do not wait for the next item. Imported by `mapping`; knows nothing of turns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from hmz_mp.core.loop import Driver

__all__ = ["Source", "source_of"]

Item = tuple[Any, ...]


def source_of(iterables: tuple[Any, ...], driver: Driver) -> Source:
    """Return the source of these iterables' items."""
    if any(hasattr(one, "__aiter__") for one in iterables):
        return _ReadAhead(iterables, driver)
    return Source(iterables)


class Source:
    """Sync iterables. ``over`` once there is nothing more; ``waits`` if it may have nothing yet."""

    waits = False

    def __init__(self, iterables: tuple[Any, ...]) -> None:
        self._iterators = [
            aiter(one) if hasattr(one, "__aiter__") else iter(one) for one in iterables
        ]
        self._zipped = zip(*self._iterators, strict=False) if not self.waits else None
        self._error: BaseException | None = None
        self.over = False
        self.on_news: Callable[[], None] = lambda: None

    def take(self, count: int) -> list[Item]:
        """Return the next items, at most ``count``; none when there are none (yet)."""
        items: list[Item] = []
        if self.over or self._zipped is None:
            return items
        try:
            # One by one, so that what was read before an iterable raised is not lost.
            for item in islice(self._zipped, count):
                items.append(item)
        except Exception as error:  # raised once the answers before it are out
            self._error = error
            self.over = True
        else:
            self.over = len(items) < count
        return items

    def check(self) -> None:
        """Raise what reading raised, if it did."""
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Read no more."""


class _ReadAhead(Source):
    """Iterables of which one is async, read by a task from the first `take` on."""

    waits = True

    # The whole state: the item read and not taken, and the task that reads, by its scope.
    def __init__(self, iterables: tuple[Any, ...], driver: Driver) -> None:
        super().__init__(iterables)
        self._driver = driver
        self._item: Item | None = None
        self._taken = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    def take(self, count: int) -> list[Item]:
        """Return the item that was read, if there is one, and have the next one read."""
        if self._scope is None:
            self._scope = anyio.CancelScope()
            self._driver.spawn(self._read)
        item, self._item = self._item, None
        if item is None or not count:
            return []
        self._taken.set()
        return [item]

    async def _read(self) -> None:
        try:
            assert self._scope is not None
            with self._scope:
                while (item := await self._next()) is not None:
                    self._taken = anyio.Event()
                    self._item = item
                    self.on_news()
                    await self._taken.wait()
        except Exception as error:  # raised once the answers before it are out
            self._error = error
        finally:
            self.over = True
            self._ended.set()
            self.on_news()

    async def _next(self) -> Item | None:
        values = []
        for one in self._iterators:
            try:
                values.append(await anext(one) if hasattr(one, "__anext__") else next(one))
            except (StopIteration, StopAsyncIteration):
                return None
        return tuple(values)

    async def close(self) -> None:
        """Stop the task, and wait for its end."""
        if self._scope is not None:
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
