"""`map`: answers for the items of iterables, through a bounded window.

Where calls are short and their arguments plain, many items travel as one turn (a pack): a future
and a frame for each would cost more than the call. How many follows from the measured time of a
call. If a pack's worker ends, its items run again one by one, so that only the guilty one fails.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from hmz_mp.core.functions import Function
from hmz_mp.core.outcomes import load_packed
from hmz_mp.core.shipment import Settings
from hmz_mp.core.sources import source_of
from hmz_mp_worker.packs import Pack
from hmz_mp_worker.payload import PLAIN, Payload

if TYPE_CHECKING:
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.turns import Turn

__all__ = ["mapped"]

_WINDOW_SECONDS = 0.01  # how much work the window holds for each worker, where calls are short
_WINDOW_MOST = 512  # items per worker
_PACK_SECONDS = 0.002
_PACK_MOST = 256
_PACK_LEAST = 4

Args = tuple[Any, ...]


class _Begun(NamedTuple):
    """A turn that was begun: for one item, or for a pack of them."""

    turn: Turn
    items: list[Args]
    packed: bool


async def mapped(
    caller: Caller,
    fn: Callable[..., Any],
    iterables: tuple[Any, ...],
    *,
    ordered: bool,
    suppress: bool,
) -> AsyncIterator[Any]:
    """Yield answers; see `Caller.map`."""
    driver = caller._pool._driver
    assert driver is not None
    source = source_of(iterables, driver)
    window = _Window(caller, fn, ordered=ordered, watched=source.waits)
    source.on_news = window.note
    try:
        while True:
            while window.room() and (items := source.take(window.next_size())):
                window.submit(items)
            if not window.begun and source.over:
                source.check()
                return
            if not window.has_next() and not source.over and window.room():
                await window.news()
                continue
            for answer in await window.answers():
                if isinstance(answer, _Failed):
                    if not suppress:
                        raise answer.error
                    yield None
                else:
                    yield answer
    finally:
        window.cancel()
        await source.close()


class _Failed(NamedTuple):
    """Stands in an item's place."""

    error: BaseException


class _Window:
    """The turns of a map that were begun and not yielded."""

    # The whole state: the turns in the order of their submission, how many items they are for,
    # and, where somebody waits for whichever lands first or for an item to read, those that have
    # landed; and the function, alone and packed.
    def __init__(
        self, caller: Caller, fn: Callable[..., Any], *, ordered: bool, watched: bool
    ) -> None:
        self._caller = caller
        self._pool = caller._pool
        self._fn = fn
        self._ordered = ordered
        self._watched = watched or not ordered
        self.begun: dict[Turn, _Begun] = {}
        self._items = 0
        self._landed: deque[Turn] = deque()
        self._news = anyio.Event()
        self._function = self._pool._functions.resolve(fn)
        self._pack: Function | None = None
        self._may_pack = self._function.kind == "call" and caller._settings == Settings()

    def room(self) -> bool:
        """Whether more items may be read."""
        seconds = self._function.timing.seconds
        ahead = 2
        if seconds is not None:
            ahead = max(ahead, min(_WINDOW_MOST, int(_WINDOW_SECONDS / max(seconds, 1e-5))))
        return not self._items or self._items + self.next_size() <= ahead * self._pool.width

    def next_size(self) -> int:
        """Return how many items to take next: 1, or a pack's worth where calls are short."""
        seconds = self._function.timing.seconds
        if not self._may_pack or seconds is None:
            return 1
        size = min(_PACK_MOST, int(_PACK_SECONDS / max(seconds, 1e-7)))
        return size if size >= _PACK_LEAST else 1

    def submit(self, items: list[Args]) -> None:
        """Begin some items: as a pack when their arguments are plain."""
        if len(items) > 1 and PLAIN.issuperset({type(value) for args in items for value in args}):
            self._keep(self._submit_pack(items), items, packed=True)
        else:
            for args in items:
                self._keep(self._caller.submit(self._fn, *args), [args], packed=False)

    def _submit_pack(self, items: list[Args]) -> Turn:
        if self._pack is None:
            self._pack = self._pool._functions.resolve(Pack(self._fn))
        payload = Payload(pickle.dumps(((items,), {}), 5))
        return self._pool._submit_packed(self._pack, payload, self._caller._lane("call"))

    def _keep(self, turn: Turn, items: list[Args], *, packed: bool) -> None:
        self.begun[turn] = _Begun(turn, items, packed)
        self._items += len(items)
        if self._watched:
            turn.add_done_callback(self._land)

    def _land(self, turn: Turn) -> None:
        if not self._ordered:
            self._landed.append(turn)
        self.note()

    def note(self) -> None:
        """Wake whoever waits for news: a turn has landed, or there is an item to read."""
        self._news.set()

    async def news(self) -> None:
        """Wait for the next of those."""
        self._news = anyio.Event()
        await self._news.wait()

    def has_next(self) -> bool:
        """Whether the next turn to yield has landed."""
        if self._ordered:
            return bool(self.begun) and next(iter(self.begun)).done()
        return bool(self._landed)

    async def answers(self) -> list[Any]:
        """Return the next answers to yield: the oldest turn's, or whichever lands first."""
        begun = self.begun[await self._next()]
        try:
            answer = await begun.turn
        except Exception as error:
            self._drop(begun)
            if begun.packed:
                return await self._one_by_one(begun.items)
            return [_Failed(error)]
        self._drop(begun)
        return self._unpack(answer, begun) if begun.packed else [answer]

    async def _next(self) -> Turn:
        if self._ordered:
            return next(iter(self.begun))
        while not self._landed:
            await self.news()
        return self._landed.popleft()

    def _drop(self, begun: _Begun) -> None:
        del self.begun[begun.turn]
        self._items -= len(begun.items)

    def _unpack(self, answer: Any, begun: _Begun) -> list[Any]:
        ran = begun.turn.account
        if ran is not None:
            self._function.timing.note(ran.seconds / len(begun.items))
        values, each = answer
        if each is None:
            return values  # type: ignore[no-any-return]  # what `Pack` answers
        return [self._unpack_one(ok, data) for ok, data in each]

    def _unpack_one(self, ok: bool, data: bytes) -> Any:
        try:
            return load_packed(ok, data, self._function.name)
        except BaseException as error:  # loading runs the user's code; failures are raised
            return _Failed(error)

    async def _one_by_one(self, items: list[Args]) -> list[Any]:
        """Run a lost pack's items again, each for itself."""
        turns = [self._caller.submit(self._fn, *args) for args in items]
        found: list[Any] = []
        try:
            for turn in turns:
                try:
                    found.append(await turn)
                except Exception as error:
                    found.append(_Failed(error))
        finally:
            for turn in turns:
                _let_go(turn)
        return found

    def cancel(self) -> None:
        """Cancel what was begun and will not be yielded."""
        for turn in self.begun:
            _let_go(turn)
        self.begun.clear()


def _let_go(turn: Turn) -> None:
    """Cancel a turn, or look at its failure, so that asyncio does not complain that nobody did."""
    if not turn.cancel() and not turn.cancelled():
        turn.exception()
