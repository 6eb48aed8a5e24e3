"""What a run keeps in memory about its turns: numbers, the few slowest, the first failures.

Owns the counting. Imported by ``runs.run`` and read by the command line; it knows nothing of
ledgers or terminals. What it holds does not grow with the number of turns that ended.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hmz_mp.agents.verdicts import needs_review
from hmz_mp.core.ambient import TurnRecord
from hmz_mp.core.turns import Progress
from hmz_mp.runs.costs import Costs

__all__ = ["Failure", "Slow", "Tally"]

SLOWEST = 5
FAILURES = 20


@dataclass(frozen=True, slots=True, order=True)
class Slow:
    """One of the slowest turns; ``seconds`` is the time it ran."""

    seconds: float
    item_id: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A turn that failed, or that was stopped as it ran, and why, on one line."""

    item_id: str
    reason: str


@dataclass(slots=True)
class Tally:
    """Counts of a run's turns by state, the slowest, and the first failures in item order.

    ``to_review`` are those that were ok, and whose answers say that somebody has to look.
    ``waiting`` are those that began, and wait as their service was too busy; ``held`` those that
    ended, and do not count yet as they may be tried again. ``unsubmitted``
    counts the items that were announced and not asked about yet; ``recalled`` those of the ok that
    were answered in an earlier execution; ``progress``
    is what running turns said last of how far they are, ``costs`` what was used of models, by
    turns that run too. How many turns
    ran at once is not to be had from ``running``: a turn that ended is told of a moment after the
    next one was shipped. The pool knows it.
    """

    submitted: int = 0
    recalled: int = 0
    unsubmitted: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    not_run: int = 0
    to_review: int = 0
    running: dict[int, TurnRecord] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    progress: dict[int, Progress] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    reviews: list[Failure] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)
    _slowest: list[Slow] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many turns there are to be, as far as is known."""
        return self.submitted + self.unsubmitted

    @property
    def ended(self) -> int:
        """How many turns have ended, whatever way."""
        return self.ok + self.failed + self.cancelled + self.not_run

    @property
    def queued(self) -> int:
        """How many turns were submitted and wait to run."""
        under_way = len(self.running) + len(self.waiting) + len(self.held)
        return self.submitted - self.ended - under_way

    @property
    def slowest(self) -> list[Slow]:
        """The slowest turns, the slowest first."""
        return sorted(self._slowest, reverse=True)

    def counts(self) -> dict[str, int]:
        """Return how many turns ended in which state."""
        return {
            "ok": self.ok,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "not_run": self.not_run,
        }

    def begin(self, record: TurnRecord) -> None:
        """Count a turn as running; again after a retry changes nothing."""
        self.running[record.number] = record
        self.waiting.discard(record.number)

    def put_back(self, record: TurnRecord) -> None:
        """Count a turn as waiting, that its service was too busy for."""
        self.running.pop(record.number, None)
        self.progress.pop(record.number, None)
        self.waiting.add(record.number)

    def hold(self, number: int) -> None:
        """Count a turn as one that ended and may be tried again."""
        self._is_over(number)
        self.held.add(number)

    def _is_over(self, number: int) -> None:
        self.running.pop(number, None)
        self.progress.pop(number, None)
        self.waiting.discard(number)
        self.held.discard(number)

    def note_progress(self, record: TurnRecord, progress: Progress) -> None:
        """Keep how far a running turn says it is."""
        if record.number in self.running:
            self.progress[record.number] = progress

    def end(self, record: TurnRecord) -> None:
        """Count a turn's ending."""
        self._is_over(record.number)
        match record.state:
            case "ok":
                self.ok += 1
                self.to_review += needs_review(record)
            case "failed":
                self.failed += 1
            case "not_run":
                self.not_run += 1
            case _:
                self.cancelled += 1
        if record.seconds is not None:
            slow = Slow(record.seconds, record.item_id)
            if len(self._slowest) < SLOWEST:
                heapq.heappush(self._slowest, slow)
            else:
                heapq.heappushpop(self._slowest, slow)

    def note_failure(self, record: TurnRecord) -> None:
        """Keep one of the first failures, and of those to be reviewed; to be told in item order.

        That somebody is not let in is kept once: it is one fault, whoever met it.
        """
        if needs_review(record) and len(self.reviews) < FAILURES:
            self.reviews.append(Failure(record.item_id, record.error or "it gave no reason"))
        if record.state in ("failed", "cancelled") and len(self.failures) < FAILURES:
            reason = record.error or record.error_type or "it gave no reason"
            if record.failure == "unauthorised" and any(
                one.reason == reason for one in self.failures
            ):
                return
            self.failures.append(Failure(record.item_id, reason))
