"""Tries of one piece of work: which turns each asks for, and whose place they take.

Owns the context variable, and how turns of two tries are matched. Imported by whoever tries work
again, and by who keeps account of turns; it knows nothing of ledgers, counts or terminals.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hmz_mp.agents.identity import asked

if TYPE_CHECKING:
    from types import TracebackType

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Keeper", "Tries", "Try", "current_try"]


class Keeper(Protocol):
    """Who keeps account of turns, and holds back what those of a try came to: a run."""

    def count(self, record: TurnRecord) -> None:
        """Count a turn that was held back: there is no other try."""

    def drop(self, record: TurnRecord) -> None:
        """Take out a turn that was held back: a later try did without it."""


class _Kept(NamedTuple):
    keeper: Keeper
    record: TurnRecord


class Try:
    """One try, as the context of all that it asks for has it.

    Its whole state: the try of other work that it is part of; whether another may follow; the turns
    of the tries before whose place nobody has taken; its own that ended and are held back; the
    items that it has asked about; and whether it is over.
    """

    def __init__(self, around: Try | None, *, last: bool, earlier: list[_Kept]) -> None:
        self._around = around
        self._last = last
        self._earlier = earlier
        self._ended: list[_Kept] = []
        self._items: set[str] = set()
        self._is_over = False

    def __repr__(self) -> str:
        return f"<Try {len(self._ended)} ended, {len(self._earlier)} of earlier ones>"

    @property
    def holds(self) -> bool:
        """Whether what its turns come to is held back, as there may be another try."""
        if self._is_over:
            return False
        return not self._last or (self._around is not None and self._around.holds)

    def predecessor(self, record: TurnRecord) -> TurnRecord | None:
        """Return the turn of an earlier try whose place a new one takes, once."""
        kept = _match([one.record for one in self._earlier], record)
        if kept is not None:
            return self._earlier.pop(kept).record
        return None if self._around is None else self._around.predecessor(record)

    def ended(self, keeper: Keeper, record: TurnRecord) -> bool:
        """Take note of how a turn of it ended; returns whether that is held back."""
        one: Try | None = self
        while one is not None and record.state != "not_run":
            one._items.add(record.item_id)
            one = one._around
        return self.keep(keeper, record)

    def keep(self, keeper: Keeper, record: TurnRecord) -> bool:
        """Take a turn that is held back, if any is: one of its own, or of before, as it was."""
        if not self.holds:
            return False
        self._ended.append(_Kept(keeper, record))
        return True

    def give_way(self) -> list[_Kept]:
        """End it, as there is another one, and return the turns whose places that may take."""
        self._is_over = True
        return [*self._earlier, *self._ended]

    def close(self) -> None:
        """End it, and have its turns count."""
        if self._is_over:
            return
        self._is_over = True
        for keeper, record in self._earlier:
            if record.item_id in self._items:
                keeper.drop(record)
            else:
                self._pass_on(keeper, record)
        for keeper, record in self._ended:
            self._pass_on(keeper, record)

    def _pass_on(self, keeper: Keeper, record: TurnRecord) -> None:
        if self._around is None or not self._around.keep(keeper, record):
            keeper.count(record)


class Tries:
    """The tries of one piece of work: ``with Tries() as tries``, and ``begin`` before each.

    Outside a run it makes no difference. It belongs to one task.
    """

    def __init__(self) -> None:
        self._try: Try | None = None
        self._token: Token[Try | None] | None = None

    def __enter__(self) -> Tries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _try.reset(self._token)
        if self._try is not None:
            self._try.close()

    def begin(self, *, last: bool) -> None:
        """Begin a try: turns that are asked for in this context are of it from now on."""
        if self._try is None and last:
            return  # there is only one
        earlier = [] if self._try is None else self._try.give_way()
        if self._token is not None:
            _try.reset(self._token)
        self._try = Try(_try.get(), last=last, earlier=earlier)
        self._token = _try.set(self._try)


_try: ContextVar[Try | None] = ContextVar("hmz_mp_try", default=None)

current_try = _try.get


def _match(earlier: list[TurnRecord], record: TurnRecord) -> int | None:
    """Return which turn a new one takes the place of: the same, or one about the same item."""
    same = [
        position
        for position, one in enumerate(earlier)
        if (one.agent_id, one.place) == (record.agent_id, record.place)
    ]
    for position in same:
        identity = asked(earlier[position].identity)
        if identity and identity == asked(record.identity):
            return position
    for position in same:
        one = earlier[position]
        if one.item_id == record.item_id or not (_is_named(one) or _is_named(record)):
            return position
    return None


def _is_named(record: TurnRecord) -> bool:
    """Whether its item has a name of its own, and not that of its session."""
    return record.item_id not in (record.session, f"{record.session}.{record.place}")
