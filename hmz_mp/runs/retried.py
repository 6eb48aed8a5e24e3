"""Turns of a run that may be tried again: held back, counted, or given up for those of another try.

Owns what is held back, and when the row of a turn is that of the next try. Imported by
``runs.run``. Whether there is another try is known in ``agents.trying``; it knows nothing of
ledgers but what a run's rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.agents.trying import current_try
from hmz_mp.runs.telling import Tried

if TYPE_CHECKING:
    from collections.abc import Callable

    from hmz_mp.agents.trying import Try
    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.endings import Endings
    from hmz_mp.runs.rows import Rows
    from hmz_mp.runs.tally import Tally

__all__ = ["Retried"]

# What a turn has of the one that it takes the place of: one row is about all tries.
_CARRIED = (
    *("number", "attempts", "submitted_at", "began_at"),
    *("input_tokens", "output_tokens", "cost_usd", "usage"),
)


class _Held:
    """A turn that ended and does not count yet."""

    __slots__ = ("is_recalled", "is_written", "record")

    def __init__(self, record: TurnRecord, *, is_recalled: bool = False) -> None:
        self.record = record
        self.is_recalled = is_recalled
        self.is_written = is_recalled


class Retried:
    """The turns of one run that were asked for in tries of something.

    ``put`` writes a record as it is now; ``count`` has an ending count that such a put writes down.

    Its whole state: what is held back, by number; the tries that open turns are of; and of those
    that have not begun what they take the place of.
    """

    def __init__(
        self,
        tally: Tally,
        endings: Endings,
        rows: Rows,
        *,
        put: Callable[[TurnRecord], int],
        count: Callable[[TurnRecord, int], object],
    ) -> None:
        self._tally = tally
        self._endings = endings
        self._rows = rows
        self._put = put
        self._count = count
        self._held: dict[int, _Held] = {}
        self._tries: dict[int, Try] = {}
        self._instead_of: dict[int, _Held] = {}

    def __repr__(self) -> str:
        return f"<Retried {len(self._held)} held, {len(self._instead_of)} to be tried again>"

    # A turn that is submitted.

    def predecessor(self, record: TurnRecord) -> TurnRecord | None:
        """Return the turn of an earlier try whose place a new one is to take."""
        attempt = current_try()
        return None if attempt is None else attempt.predecessor(record)

    def take_over(self, record: TurnRecord, earlier: TurnRecord) -> None:
        """Give a turn the number of an earlier try, and what that has used.

        Until it begins the row is that of the earlier one: what is stopped before was tried so far.
        """
        self._instead_of[earlier.number] = self._let_go(earlier.number)
        for name in _CARRIED:
            setattr(record, name, getattr(earlier, name))

    def refuse(self, record: TurnRecord, earlier: TurnRecord) -> None:
        """Take note that a turn may not run that was to take the place of ``earlier``."""
        record.number = earlier.number
        self._keep(current_try(), earlier)

    def open(self, record: TurnRecord) -> None:
        """Take note of a turn that is submitted, and has its number."""
        attempt = current_try()
        if attempt is not None:
            self._tries[record.number] = attempt

    def recalled(self, known: TurnRecord) -> bool:
        """Take a turn that was answered before; returns whether it does not count yet."""
        attempt = current_try()
        if attempt is None or not attempt.ended(self, known):
            return False
        self._hold(_Held(known, is_recalled=True))
        return True

    # A turn that is open.

    def began(self, record: TurnRecord) -> None:
        """Take note that a turn runs: the row is its own now, and says what the earlier try was."""
        earlier = self._instead_of.pop(record.number, None)
        if earlier is not None:
            self._rows.say(record, Tried(earlier.record))

    def ended(self, record: TurnRecord, then: Callable[[], object]) -> bool:
        """Take an ending that does not count yet; returns whether it is one."""
        attempt = self._tries.pop(record.number, None)
        if attempt is None:
            return False
        earlier = self._instead_of.get(record.number)
        if earlier is not None and record.state == "not_run":
            del self._instead_of[record.number]
            self._hold(earlier)
            self._keep(attempt, earlier.record)
            then()
            return True
        self.began(record)
        if not attempt.ended(self, record):
            return False
        held = _Held(record)
        self._hold(held)

        def written() -> None:
            held.is_written = True
            then()

        self._endings.hold(self._put(record), written)
        return True

    # Turns that are held back: what tries call.

    def count(self, record: TurnRecord) -> None:
        """Have a turn count: there is no other try."""
        if record.number not in self._held:
            return  # the run has ended, and counted it
        held = self._let_go(record.number)
        self._tally.recalled += held.is_recalled
        self._count(record, 0 if held.is_written else self._put(record))

    def drop(self, record: TurnRecord) -> None:
        """Take out a turn that a later try did without, or was answered before for."""
        if record.number not in self._held:
            return
        self._let_go(record.number)
        self._tally.submitted -= 1
        self._endings.drop(record.number)
        self._rows.drop(record.number)

    def finish(self) -> None:
        """Have all count that is left: the run ends."""
        for held in list(self._held.values()):
            self.count(held.record)

    def _hold(self, held: _Held) -> None:
        record = held.record
        record.cancel = record.tell = None  # a finished record holds no turn
        self._held[record.number] = held
        self._tally.hold(record.number)

    def _let_go(self, number: int) -> _Held:
        self._tally.held.discard(number)
        return self._held.pop(number)

    def _keep(self, attempt: Try | None, earlier: TurnRecord) -> None:
        if attempt is None or not attempt.keep(self, earlier):
            self.count(earlier)
