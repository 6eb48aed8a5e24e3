"""``Run``: one execution of a flow, as its flow, its agents and its watchers see it.

Owns the order of records, that no answer may be had before it is written down, when no new turns
may begin, and what becomes of items that were never asked about. It is the ``RunContext`` of
``core.ambient`` and the observer of every agent turn. It
writes to a ledger and counts in a `Tally`; it knows nothing of terminals or of the command line.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hmz_mp.core.turns import Progress, PutBack, Shipped
from hmz_mp.errors import BudgetExceeded, Stopped
from hmz_mp.runs.costs import NO_BUDGET, Budget
from hmz_mp.runs.endings import Endings
from hmz_mp.runs.retried import Retried
from hmz_mp.runs.rows import RecordSink, Rows, never_submitted
from hmz_mp.runs.tally import Tally
from hmz_mp_worker.backends.protocol import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hmz_mp.core.ambient import Item, TurnObserver, TurnRecord
    from hmz_mp.core.pool import Pool
    from hmz_mp.runs.replay import Replay

__all__ = ["Run"]


class Run:
    """One execution of a flow. Everything in it happens on the coordinator's loop.

    ``select`` returns the items the user selected, and is called when the flow first asks for
    them. ``on_record`` is told of each record that ended and is written down, in item order. After
    ``max_failures`` failed turns (0: never), or once the ``budget`` is spent, no new ones begin.
    With a ``replay`` it goes on with what earlier executions have left.

    Its whole state: the tally; the records that have not ended, the endings that are not told of,
    and the turns that may be tried again; the items announced and not submitted yet; why it was
    halted, if it was; how many turns ran when the budget was spent; and its rows in the ledger.
    """

    def __init__(
        self,
        *,
        pool: Pool,
        ledger: RecordSink,
        task: str,
        select: Callable[[], Sequence[Item]],
        max_failures: int = 0,
        budget: Budget = NO_BUDGET,
        replay: Replay | None = None,
        state: dict[str, Any] | None = None,
        on_record: Callable[[TurnRecord], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.tally = Tally()
        self.halted: str | None = None
        self.budget = budget
        self.overrun: int | None = None  # turns that ran when the budget was spent
        self._pool = pool
        self._ledger = ledger
        self._task = task
        self._select = select
        self._max_failures = max_failures
        self._stopped: Stopped | None = None
        self._on_record = on_record
        self._now = now
        self._items: Sequence[Item] | None = None
        self._unsubmitted: dict[str, Item] = {}
        self._open: dict[int, TurnRecord] = {}
        self._endings = Endings(self._tell)
        self._replay = replay
        self.rows = Rows(ledger, replay, state, now)
        self._retried = Retried(
            self.tally, self._endings, self.rows, put=self._put, count=self._count
        )
        if replay is not None:
            self.tally.costs.add(replay.costs.models)
            self._mind_budget()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in self.tally.counts().items())
        return f"<Run {self.id}: {len(self._open)} open, {counts}>"

    # What flows and agents see: RunContext

    @property
    def id(self) -> str:
        """The run's name in its ledger."""
        return self._ledger.run_id

    @property
    def directory(self) -> Path | None:
        """Where the run's files are."""
        return self._ledger.directory

    def masked(self, text: str) -> str:
        """Return a text as it may be written to a file."""
        return self._ledger.masked(text)

    @property
    def task(self) -> str:
        """The TASK the run was started with."""
        return self._task

    @property
    def pool(self) -> Pool:
        """The pool that the run's turns go to."""
        return self._pool

    @property
    def observer(self) -> TurnObserver:
        """The run itself."""
        return self

    def items(self) -> Sequence[Item]:
        """Return the selected items; those that are never submitted will be reported as not run."""
        if self._items is None:
            self._items = self._select()
            self._unsubmitted = {item.item_id: item for item in self._items}
            self.tally.unsubmitted = len(self._unsubmitted)
            self.rows.selected(len(self._unsubmitted))
        return self._items

    # What agents tell: TurnObserver

    def submitted(self, record: TurnRecord) -> TurnRecord | None:
        """Give the record its number; raises `Stopped`, the record not run, when halted.

        Returns the record of before, if the turn was answered in an earlier execution.
        """
        earlier = self._retried.predecessor(record)
        known = None
        if self._replay is not None and earlier is not None:
            self._replay.rename(record)
        elif self._replay is not None:
            known = self._replay.recall(record)
        if self._unsubmitted.pop(record.item_id, None) is not None:
            self.tally.unsubmitted -= 1
        if known is not None:
            self._expect(known)
            if not self._retried.recalled(known):
                self.tally.recalled += 1
                self._count(known, 0)
            return known
        if self._stopped is not None:
            self._refuse(record, earlier)
            raise _another(self._stopped)
        if earlier is None:
            self.rows.number(record)
            self._expect(record)
        else:
            self._retried.take_over(record, earlier)
        self._retried.open(record)
        self._open[record.number] = record
        if earlier is None:
            self._put(record)
        self.rows.introduce(record)
        return None

    def _refuse(self, record: TurnRecord, earlier: TurnRecord | None) -> None:
        record.state = "not_run"
        record.error = self.halted
        record.ended_at = self._now()
        if earlier is not None:
            self._retried.refuse(record, earlier)
            return
        self.rows.number(record)
        self._expect(record)
        self._settle(record)

    def _expect(self, record: TurnRecord) -> None:
        self._endings.expect(record.number)
        self.tally.submitted += 1

    def _put(self, record: TurnRecord) -> int:
        return self.rows.put(record, alone=not self._open)

    def began(self, record: TurnRecord) -> None:
        """Note that the turn runs."""
        self._retried.began(record)
        self.tally.begin(record)
        if record.attempts > 1 and record.worker is not None:
            self.rows.say(record, Shipped(record.worker))
        self._put(record)

    def said(self, record: TurnRecord, event: Any) -> None:
        """Note how far the turn says it is, and what it has used; may halt the run."""
        if isinstance(event, Progress):
            self.tally.note_progress(record, event)
        elif isinstance(event, PutBack):
            self.tally.put_back(record)
            self._put(record)
        elif isinstance(event, Spent):
            self.tally.costs.add(event.usage)
            self._mind_budget()
        self.rows.say(record, event)

    def ended(self, record: TurnRecord, then: Callable[[], object]) -> None:
        """Count and write the turn's ending, and pass it on once it is; may halt the run."""
        if self._open.pop(record.number, None) is None:
            then()  # this run has ended it itself
            return
        if self.halted is not None and record.state in ("cancelled", "not_run"):
            record.error = self.halted
        self.rows.ended(record)
        if not self._retried.ended(record, then):
            self._settle(record, then)
        if record.failure == "unauthorised":
            self.halt(record.error or "unauthorised", end_running=False)

    def written(self, puts: int) -> None:
        """Take note that so many puts are written down: now these answers may be had."""
        self._endings.written(puts)

    def _mind_budget(self) -> None:
        reason = self.budget.reached(self.tally.costs) if self.overrun is None else None
        if reason is not None:
            self.overrun = len(self.tally.running)
            self.halt(BudgetExceeded(reason), end_running=False)

    # What the command line does with it

    def halt(self, reason: str | Stopped, *, end_running: bool) -> None:
        """Let no new turn begin: what is queued is not run, and what runs is ended if asked."""
        if self._stopped is None:
            self._stopped = Stopped(reason) if isinstance(reason, str) else reason
            self.halted = self._stopped.reason
        error = self._stopped
        for record in list(self._open.values()):
            queued = record.number not in self.tally.running
            if record.cancel is not None and (queued or end_running):
                record.cancel(_another(error))

    def interject(self, number: int, text: str) -> bool:
        """Say something to the agent of a turn; returns whether it runs and could be told."""
        record = self._open.get(number)
        if record is None or record.tell is None or not record.tell(text):
            return False
        self._ledger.say(number, self._now(), "told", text)
        return True

    def excess(self) -> str | None:
        """Return by how much the budget was exceeded, and by what, in words, or ``None``."""
        excess = self.budget.excess(self.tally.costs)
        if excess is None:
            return None
        if not self.overrun:
            return f"{excess} more than was allowed, before this execution began"
        turns = "the turn" if self.overrun == 1 else f"the {self.overrun:,} turns"
        return f"{excess} more than was allowed, by {turns} that ran when that was reached"

    def finish(self) -> None:
        """Account for what is left once the flow has ended and the pool is closed.

        Turns that nobody ended were stopped with their workers; items that were announced and
        never submitted are not run.
        """
        reason = self.halted or "the flow did not ask about it"
        for record in list(self._open.values()):
            record.state = "cancelled" if record.number in self.tally.running else "not_run"
            record.error = record.error or self.halted or "stopped as the run ended"
            record.ended_at = self._now()
            self._open.pop(record.number, None)
            if not self._retried.ended(record, lambda: None):
                self._settle(record)
        self._retried.finish()
        for item in list(self._unsubmitted.values()):
            record = never_submitted(item, reason, self._now())
            self.rows.number(record)
            self._expect(record)
            self.tally.unsubmitted -= 1
            has_row = self._replay is not None and self._replay.has_row(item.item_id)
            self._settle(record, write=not has_row)  # what is there says more
        self._unsubmitted.clear()

    def _settle(
        self,
        record: TurnRecord,
        then: Callable[[], object] | None = None,
        *,
        write: bool = True,
    ) -> None:
        record.cancel = record.tell = None  # a finished record holds no turn
        self._count(record, self._put(record) if write else 0, then)

    def _count(
        self, record: TurnRecord, put: int, then: Callable[[], object] | None = None
    ) -> None:
        """Have an ending count that a put writes down, and pass it on then; may halt the run."""
        self.tally.end(record)
        self._endings.add(record, put, then)
        if record.state == "failed" and self.tally.failed == self._max_failures:
            reason = f"{self._max_failures} failed, the most that was allowed"
            self.halt(reason, end_running=False)

    def _tell(self, record: TurnRecord) -> None:
        self.tally.note_failure(record)
        if self._on_record is not None:
            self._on_record(record)


def _another(error: Stopped) -> Stopped:
    """Return the same error for one more to raise, without the traceback of the others."""
    return type(error)(error.reason)
