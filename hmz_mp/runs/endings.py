"""When an ending may be told of: once it is written down, and all that were asked before it too.

Owns that order. Imported by ``runs.run``; it knows nothing of ledgers, but that they count.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Endings"]


class _Unwritten(NamedTuple):
    """An ending that is not written down yet: by which put it will be, and who waits for it."""

    put: int
    record: TurnRecord | None  # `None` if it is not to be told of
    then: Callable[[], object] | None


class Endings:
    """Tells ``tell`` of every ending, in the order in which turns were submitted.

    Its whole state: the place in that order of each turn that has not been told of, and how many
    there were; the endings that are not written down, and those that wait for an earlier one; and
    how many were told of.
    """

    def __init__(self, tell: Callable[[TurnRecord], object]) -> None:
        self._tell = tell
        self._places: dict[int, int] = {}
        self._begun = 0
        self._unwritten: deque[_Unwritten] = deque()
        self._waiting: dict[int, TurnRecord | None] = {}
        self._told = 0

    def __repr__(self) -> str:
        return f"<Endings {self._told} of {self._begun} told, {len(self._unwritten)} unwritten>"

    def expect(self, number: int) -> None:
        """Take note that the turn ``number`` was submitted."""
        self._places[number] = self._begun
        self._begun += 1

    def add(self, record: TurnRecord, put: int, then: Callable[[], object] | None = None) -> None:
        """Take an ending that the ledger's ``put`` writes down; 0 if there is nothing to wait for.

        ``then`` is called once it is written, whatever was asked before.
        """
        if put:
            self._unwritten.append(_Unwritten(put, record, then))
        else:
            self._pass_on(record, then)

    def hold(self, put: int, then: Callable[[], object]) -> None:
        """Call ``then`` once a put is written down, of an ending that is not to be told of yet."""
        if put:
            self._unwritten.append(_Unwritten(put, None, then))
        else:
            then()

    def drop(self, number: int) -> None:
        """Take note that the turn ``number`` is not to be told of."""
        self._waiting[self._places.pop(number)] = None
        self._go_on()

    def written(self, puts: int) -> None:
        """Take note that so many puts are written down."""
        while self._unwritten and self._unwritten[0].put <= puts:
            _, record, then = self._unwritten.popleft()
            self._pass_on(record, then)

    def _pass_on(self, record: TurnRecord | None, then: Callable[[], object] | None) -> None:
        if record is not None:
            self._waiting[self._places.pop(record.number)] = record
            self._go_on()
        if then is not None:
            then()

    def _go_on(self) -> None:
        while self._told in self._waiting:
            first = self._waiting.pop(self._told)
            self._told += 1
            if first is not None:
                self._tell(first)
