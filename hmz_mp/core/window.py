"""The turns of one `map` that were begun and not yielded, and how many there may be of them.

Where calls are short and their arguments plain, many items travel as one turn (a pack): a future
and a frame for each would cost more than the call. How many follows from the measured time of a
call, and from how large its items and answers are. If a pack's worker ends, its items run again
one by one, so that only the guilty one fails. Imported by `mapping` only.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from hmz_mp.core.functions import Function
from hmz_mp.core.outcomes import load_packed
from hmz_mp.core.shipment import Settings
from hmz_mp.core.weights import Average, weight_of
from hmz_mp_worker.packs import Pack
from hmz_mp_worker.payload import PLAIN, Payload

if TYPE_CHECKING:
    from hmz_mp.core.caller import Caller
    from hmz_mp.core.turns import Turn

__all__ = ["Answers", "Failed", "Window"]

_WINDOW_SECONDS = 0.01  # how much work the window holds for each worker, where calls are short
_WINDOW_MOST = 8192  # items per worker
_WINDOW_BYTES = 1 << 26  # of items and answers, but for two items per worker
_PACK_SECONDS = 0.0004  # so short that the next one is shipped ahead of it
_PACK_MOST = 2048
_PACK_LEAST = 4
_PACK_BYTES = 1 << 20


class _Begun(NamedTuple):
    """A turn that was begun: for one item, or for a pack of them."""

    turn: Turn
    items: list[Any]
    packed: bool


class Failed(NamedTuple):
    """Stands in an item's place."""

    error: BaseException


class Answers(NamedTuple):
    """Some answers in a row, and whether some of them are `Failed`."""

    values: list[Any]
    failed: bool


class Window:
    """The turns of a map that were begun and not yielded."""

    # The whole state: the turns in the order of their items, how many items they are for, and
    # what those and their answers weigh; where somebody waits for whichever lands first or for an
    # item to read, those that have landed; and the function, alone and packed.
    def __init__(
        self,
        caller: Caller,
        fn: Callable[..., Any],
        *,
        several: bool,
        ordered: bool,
        watched: bool,
    ) -> None:
        self._caller = caller
        self._pool = caller._pool
        self._fn = fn
        self._several = several
        self._ordered = ordered
        self._watched = watched or not ordered
        self.begun: dict[Turn, _Begun] = {}
        self._items = 0
        self._item_weight = Average()
        self._answer_weight = Average()
        self._landed: deque[Turn] = deque()
        self._news = anyio.Event()
        self._function = self._pool._functions.resolve(fn)
        self._pack: Function | None = None
        self._may_pack = self._function.kind == "call" and caller._settings == Settings()

    def room(self) -> int:
        """Return how many items to take next: 1, a pack's worth where calls are short, or 0."""
        size = self._next_size()
        return size if not self._items or self._items + size <= self._most() else 0

    def _most(self) -> int:
        """Return how many items may be begun and not yielded."""
        seconds = self._seconds()
        ahead = 2
        if seconds is not None:
            ahead = max(ahead, min(_WINDOW_MOST, int(_WINDOW_SECONDS / max(seconds, 1e-7))))
        most = int(_WINDOW_BYTES / (self._item_weight.value + self._answer_weight.value + 1))
        return max(2 * self._pool.width, min(ahead * self._pool.width, most))

    def _next_size(self) -> int:
        seconds = self._seconds()
        if not self._may_pack or seconds is None:
            return 1
        largest = max(self._item_weight.value, self._answer_weight.value, 1)
        size = int(min(_PACK_MOST, _PACK_SECONDS / max(seconds, 1e-7), _PACK_BYTES / largest))
        return size if size >= _PACK_LEAST else 1

    def _seconds(self) -> float | None:
        """Return what a call takes, or ``None`` until this map has seen an answer of its own."""
        return self._function.timing.seconds if self._answer_weight.value else None

    def submit(self, items: list[Any]) -> None:
        """Begin some items."""
        self._item_weight.note(weight_of(items[0]))
        for begun in self._begin(items):
            self._keep(begun)

    def _begin(self, items: list[Any]) -> list[_Begun]:
        """Begin items as a pack when their arguments are plain, else each for itself."""
        if len(items) > 1 and PLAIN.issuperset(self._types(items)):
            return [_Begun(self._submit_pack(items), items, packed=True)]
        return [_Begun(self._submit_one(item), [item], packed=False) for item in items]

    def _types(self, items: list[Any]) -> set[type]:
        if self._several:
            return {type(value) for args in items for value in args}
        return set(map(type, items))

    def _submit_pack(self, items: list[Any]) -> Turn:
        if self._pack is None:
            pack = Pack(self._fn, single=not self._several, divisible=True)
            self._pack = self._pool._functions.resolve(pack)
        payload = Payload(pickle.dumps(((items,), {}), 5))
        return self._pool._submit_packed(self._pack, payload, self._caller._lane("call"))

    def _submit_one(self, item: Any) -> Turn:
        args = item if self._several else (item,)
        return self._caller.submit(self._fn, *args)

    def _keep(self, begun: _Begun) -> None:
        self.begun[begun.turn] = begun
        self._items += len(begun.items)
        if self._watched:
            begun.turn.add_done_callback(self._land)

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

    async def answers(self) -> Answers:
        """Return the next answers to yield: the oldest turn's, or whichever lands first."""
        begun = self.begun[await self._next()]
        try:
            answer = await begun.turn
        except Exception as error:
            self._drop(begun)
            if begun.packed:
                return Answers(await self._one_by_one(begun.items), failed=True)
            return Answers([Failed(error)], failed=True)
        self._drop(begun)
        found = self._unpack(answer, begun) if begun.packed else Answers([answer], failed=False)
        if found.values:
            self._answer_weight.note(weight_of(found.values[0]))
        return found

    async def _next(self) -> Turn:
        if self._ordered:
            return next(iter(self.begun))
        while not self._landed:
            await self.news()
        return self._landed.popleft()

    def _drop(self, begun: _Begun) -> None:
        del self.begun[begun.turn]
        self._items -= len(begun.items)

    def _unpack(self, answer: Any, begun: _Begun) -> Answers:
        values, each = answer
        count = len(values if each is None else each)
        ran = begun.turn.account
        if ran is not None:
            self._function.timing.note(ran.seconds / count)
        if count < len(begun.items):  # it was cut short, since it took long
            self._begin_rest(begun.items[count:])
        if each is None:
            return Answers(values, failed=False)
        return Answers([self._unpack_one(ok, data) for ok, data in each], failed=True)

    def _begin_rest(self, items: list[Any]) -> None:
        """Begin the rest of a pack, in smaller ones, before what comes after it."""
        later, self.begun = self.begun, {}
        size = self._next_size()
        for at in range(0, len(items), size):
            for begun in self._begin(items[at : at + size]):
                self._keep(begun)
        self.begun.update(later)

    def _unpack_one(self, ok: bool, data: bytes) -> Any:
        try:
            return load_packed(ok, data, self._function.name)
        except BaseException as error:  # loading runs the user's code; failures are raised
            return Failed(error)

    async def _one_by_one(self, items: list[Any]) -> list[Any]:
        """Run a lost pack's items again, each for itself."""
        turns = [self._submit_one(item) for item in items]
        found: list[Any] = []
        try:
            for turn in turns:
                try:
                    found.append(await turn)
                except Exception as error:
                    found.append(Failed(error))
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
