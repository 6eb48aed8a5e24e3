"""When each turn waited and ran, and where: what timelines are drawn from.

Pure but for the reading. Imported by ``trace`` and ``page``; it knows nothing of how they look.
Many turns of one worker may run at a time: each is given a slot, so that those of one slot never
overlap.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.runs.schema import RESUMABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hmz_mp.runs.reading import RecordedRun

__all__ = ["TOLD_LATE", "Clock", "Span", "in_slots", "ran_by_worker", "ran_from", "read_spans"]


TOLD_LATE = 0.02  # seconds: how much later than it was an end may be told of


class Clock:
    """The time of a run, without the gaps between its executions if it was resumed.

    ``executions`` is how many there were, ``seconds`` how long they took together. A moment of one
    of them, by ``time.time()``, plus its `shift` is since the run began.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._shifts: dict[int, float] = {}
        self.seconds = 0.0
        for execution, begin, end in _executions(run):
            self._shifts[execution] = self.seconds - begin
            self.seconds += max(0.0, end - begin)
        self._first = next(iter(self._shifts.values()))

    @property
    def executions(self) -> int:
        """How many times the run was begun or resumed."""
        return len(self._shifts)

    def shift(self, execution: int | None) -> float:
        """Return what is to be added to moments of an execution; older ledgers know of no other."""
        return self._shifts.get(execution or 1, self._first)


class Span(NamedTuple):
    """One turn in time, in seconds since the run began.

    ``began_at`` is ``None`` if it never ran; ``ended_at`` is always there: of a turn that runs
    still it is now, of one that a kill cut short the run's end. ``seconds`` is the last attempt's,
    ``shift`` what makes such seconds of ``time.time()``.
    """

    number: int
    item_id: str
    state: str
    attempts: int
    worker: int | None
    submitted_at: float
    began_at: float | None
    ended_at: float
    seconds: float | None
    agent: str
    session: str
    place: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    error: str | None
    execution: int | None
    shift: float = 0.0

    @property
    def begin(self) -> float:
        """When it began, or was submitted, if it never did."""
        return self.submitted_at if self.began_at is None else self.began_at


_FIELDS = Span._fields[:-1]
_ENDED = _FIELDS.index("ended_at")


def read_spans(run: RecordedRun, clock: Clock) -> list[Span]:
    """Return every turn, in the order of submission."""
    found = []
    for row in run.columns(_FIELDS):
        span = Span._make((*row, 0.0))
        shift = clock.shift(span.execution)
        began_at = None if span.began_at is None else span.began_at + shift
        begin = span.submitted_at + shift if began_at is None else began_at
        ended_at = row[_ENDED]
        if ended_at is None or ended_at + shift < begin:
            ended_at = max(clock.seconds, begin) - shift
        if began_at is not None:
            began_at = ran_from(began_at, ended_at + shift, span.seconds, span.attempts)
        found.append(
            span._replace(
                submitted_at=span.submitted_at + shift,
                began_at=began_at,
                ended_at=ended_at + shift,
                shift=shift,
            )
        )
    return found


_EXECUTIONS = """
SELECT executions.execution, executions.started_at, executions.ended_at, (
    SELECT max(max(submitted_at, coalesce(began_at, 0), coalesce(turns.ended_at, 0))) FROM turns
    WHERE turns.execution = executions.execution
) FROM executions ORDER BY execution
"""


def _executions(run: RecordedRun) -> list[tuple[int, float, float]]:
    """Return each execution's number, beginning and end; of one that was killed, its last sign."""
    summary = run.summary
    end = time.time() if summary.ended_at is None else summary.ended_at
    found = []
    if summary.ledger_version >= RESUMABLE:
        for execution, began, ended, last in run.rows(_EXECUTIONS):
            found.append((execution, began, max(filter(None, (ended or last, began)))))
    if len(found) < 2:
        return [(1, summary.started_at, max(end, summary.started_at))]
    number, began, _ = found[-1]
    return [*found[:-1], (number, began, max(end, began))]


def ran_by_worker(spans: Iterable[Span]) -> dict[int, list[Span]]:
    """Return the turns that ran, by worker, workers and turns in the order in which they began."""
    ran = sorted((one for one in spans if one.began_at is not None), key=lambda one: one.begin)
    by_worker = defaultdict(list)
    for span in ran:
        by_worker[span.worker or 0].append(span)
    return dict(by_worker)


def ran_from(
    began_at: float, ended_at: float, seconds: float | None, attempts: int | None
) -> float:
    """Return when a turn really began to run: it may have been shipped ahead of another's end."""
    if seconds is None or (attempts or 0) > 1:
        return began_at
    return max(began_at, ended_at - seconds)


def in_slots(
    times: Sequence[tuple[float, float]], most: int = 0, slack: float = 0.0
) -> Iterator[int | None]:
    """Yield a slot for each span of time, from 0, such that those of one slot do not overlap.

    ``times`` are in the order of their beginnings. Slots are as few as can be. With ``most``,
    what would need one more gets ``None``. They may overlap by ``slack``, as ends are told late.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    used = 0
    for begin, end in times:
        while busy and busy[0][0] - slack <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            slot = heapq.heappop(free)
        elif most and used == most:
            yield None
            continue
        else:
            slot, used = used, used + 1
        heapq.heappush(busy, (end, slot))
        yield slot
