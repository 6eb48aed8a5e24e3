"""`map`: answers for the items of iterables, through a bounded window."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.turns import Turn

__all__ = ["mapped"]

_WINDOW_SECONDS = 0.01  # how much work the window holds for each worker, where calls are short
_WINDOW_MOST = 512  # turns per worker


async def mapped(
    caller: Caller,
    fn: Callable[..., Any],
    iterables: tuple[Any, ...],
    *,
    ordered: bool,
    suppress: bool,
) -> AsyncIterator[Any]:
    """Yield answers; see `Caller.map`."""
    items = _zipped(iterables)
    window = _Window(caller, fn, ordered=ordered)
    try:
        more = True
        while True:
            while more and window.has_room():
                try:
                    args = await anext(items)
                except StopAsyncIteration:
                    more = False
                    break
                window.submit(args)
            if not window.waiting:
                return
            turn = await window.next()
            try:
                answer = await turn
            except Exception:
                if not suppress:
                    raise
                answer = None
            yield answer
    finally:
        window.cancel()
        await items.aclose()


class _Window:
    """The turns of a map that were begun and not yielded."""

    def __init__(self, caller: Caller, fn: Callable[..., Any], *, ordered: bool) -> None:
        self._caller = caller
        self._fn = fn
        self._ordered = ordered
        self.waiting: dict[Turn, None] = {}
        self._landed: deque[Turn] = deque()
        self._landing = anyio.Event()
        self._function = caller._pool._functions.resolve(fn)

    def has_room(self) -> bool:
        """Whether another item may be read."""
        return len(self.waiting) < self._room()

    def _room(self) -> int:
        """Return how many turns are kept begun: two for each worker, more where calls are short."""
        seconds = self._function.timing.seconds
        ahead = 2
        if seconds is not None:
            ahead = max(ahead, min(_WINDOW_MOST, int(_WINDOW_SECONDS / max(seconds, 1e-5))))
        return ahead * self._caller._pool.width

    def submit(self, args: tuple[Any, ...]) -> None:
        """Begin one more."""
        turn = self._caller.submit(self._fn, *args)
        self.waiting[turn] = None
        if not self._ordered:
            turn.add_done_callback(self._land)

    def _land(self, turn: Turn) -> None:
        self._landed.append(turn)
        self._landing.set()

    async def next(self) -> Turn:
        """Take out the next turn to yield: the oldest, or whichever lands first."""
        if self._ordered:
            turn = next(iter(self.waiting))
        else:
            while not self._landed:
                self._landing = anyio.Event()
                await self._landing.wait()
            turn = self._landed.popleft()
        del self.waiting[turn]
        return turn

    def cancel(self) -> None:
        """Cancel what was begun and will not be yielded."""
        for turn in self.waiting:
            turn.cancel()
        self.waiting.clear()


async def _zipped(iterables: tuple[Any, ...]) -> AsyncGenerator[tuple[Any, ...], None]:
    """Yield tuples of the iterables' items until the shortest ends; sync and async ones."""
    iterators = [_iterator(one) for one in iterables]
    while True:
        values = []
        for one in iterators:
            try:
                values.append(await anext(one) if hasattr(one, "__anext__") else next(one))
            except (StopIteration, StopAsyncIteration):
                return
        yield tuple(values)


def _iterator(iterable: Any) -> Any:
    return aiter(iterable) if hasattr(iterable, "__aiter__") else iter(iterable)
