"""What waits to be written to a ledger, and when its writer is to write it.

Owns what is shared by the threads that put things and the one that writes them. Imported by the
ledger only; it knows nothing of databases.
"""

from __future__ import annotations

import threading
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.events import TurnSaid

__all__ = ["ENDED", "Backlog", "Batch"]

BATCH_ROWS = 2048
BATCH_SECONDS = 0.1
ENDING_SECONDS = 0.004  # between batches of endings: each costs as much as some ten rows in it
ENDED = frozenset(("ok", "failed", "cancelled", "not_run"))


class _Heeds(IntEnum):
    """What the writer waits for: nothing, somebody who waits for it, a turn's end, or any work."""

    NOTHING = 0
    AWAITED = 1
    ENDINGS = 2
    ANYTHING = 3


class Batch(NamedTuple):
    """What is written together: turns, what was said, other rows, and perhaps the run's end.

    ``total`` is how many things there were by then.
    """

    records: list[TurnRecord]
    said: list[TurnSaid]
    rows: list[tuple[str, tuple[Any, ...]]]
    end: tuple[Any, ...] | None
    total: int


class Backlog:
    """Takes things from any thread, for one writer.

    A batch is due at once when the writer has been idle, or somebody waits; when turns have ended,
    every four milliseconds; otherwise every tenth of a second, or every 2,048 rows.
    """

    # The whole state, under `_changed`: turns, what was said, other rows and the run's end, that
    # are not written; how many things there were so far, and how many are; whether anything more
    # is taken, and whether anything more is written; how many wait for all to be written; whether
    # a turn has ended, or one that is not to wait; and what the writer waits for.
    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._records: dict[int, TurnRecord] = {}
        self._said: list[TurnSaid] = []
        self._rows: list[tuple[str, tuple[Any, ...]]] = []
        self._end: tuple[Any, ...] | None = None
        self._count = 0
        self._written = 0
        self._is_open = True
        self._is_lost = False
        self._waiting = 0
        self._urgent = False
        self._alone = False
        self._heeds = _Heeds.NOTHING

    def __repr__(self) -> str:
        return f"<Backlog {self._written} of {self._count} written>"

    @property
    def is_open(self) -> bool:
        """Whether it takes anything."""
        return self._is_open

    # Any thread.

    def put(self, record: TurnRecord, *, alone: bool) -> int:
        """Take a turn; returns how many things there were, 0 when nothing is taken any more."""
        with self._changed:
            if not self._is_open:
                return 0
            self._count += 1
            self._records[record.number] = record
            if record.state in ENDED:
                self._urgent = True
            if alone or len(self._records) >= BATCH_ROWS:
                self._alone = True
                self._wake(_Heeds.AWAITED)
            else:
                self._wake(_Heeds.ENDINGS if self._urgent else _Heeds.ANYTHING)
            return self._count

    def say(self, said: TurnSaid) -> None:
        """Take what a turn said."""
        with self._changed:
            if self._is_open:
                self._count += 1
                self._said.append(said)
                self._wake(_Heeds.ANYTHING)

    def note(self, statement: str, values: tuple[Any, ...]) -> None:
        """Take another row."""
        with self._changed:
            if self._is_open:
                self._count += 1
                self._rows.append((statement, values))
                self._wake(_Heeds.ANYTHING)

    def finish(self, end: tuple[Any, ...]) -> None:
        """Take the run's end."""
        with self._changed:
            if self._is_open:
                self._count += 1
                self._end = end

    def flush(self) -> bool:
        """Wait until what was taken before is written; returns whether it is."""
        with self._changed:
            target = self._count
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_lost or self._written >= target)
            self._waiting -= 1
            return not self._is_lost and self._written >= target

    def close(self) -> None:
        """Take no more; the writer ends when all is written."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def lose(self) -> None:
        """Drop what is there, and take no more: it cannot be written."""
        with self._changed:
            self._is_open = False
            self._is_lost = True
            self._records.clear()
            self._said.clear()
            self._rows.clear()
            self._end = None
            self._changed.notify_all()

    def _wake(self, what: _Heeds) -> None:
        """Wake the writer, if it heeds such work."""
        if self._heeds >= what:
            self._heeds = _Heeds.NOTHING
            self._changed.notify_all()

    # The writer.

    def await_batch(self, last: float) -> bool:
        """Wait until one is due; returns whether there is one. ``last`` is when there was one."""
        with self._changed:
            self._heed(_Heeds.AWAITED, last + ENDING_SECONDS)
            self._heed(_Heeds.ENDINGS, last + BATCH_SECONDS)
            self._heed(_Heeds.ANYTHING)
            return self._has_work()

    def take(self) -> Batch:
        """Return all that waits."""
        with self._changed:
            batch = Batch(
                list(self._records.values()), self._said, self._rows, self._end, self._count
            )
            self._records, self._said, self._rows, self._end = {}, [], [], None
            self._urgent = self._alone = False
            return batch

    def written(self, batch: Batch) -> None:
        """Take note that a batch is written."""
        with self._changed:
            self._written = batch.total
            self._changed.notify_all()

    def _heed(self, what: _Heeds, until: float | None = None) -> None:
        """Wait for work that is not to wait itself. Only what is heeded wakes: waking costs."""
        due = {_Heeds.AWAITED: self._is_awaited, _Heeds.ENDINGS: self._is_urgent}
        is_due = due.get(what, lambda: self._has_work() or not self._is_open)
        while not is_due():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            self._heeds = what
            self._changed.wait(left)
        self._heeds = _Heeds.NOTHING

    def _has_work(self) -> bool:
        return bool(self._records or self._end or self._said or self._rows)

    def _is_awaited(self) -> bool:
        return self._alone or bool(self._waiting) or not self._is_open

    def _is_urgent(self) -> bool:
        return self._urgent or self._is_awaited()
