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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hmz_mp.runs.reading import RecordedRun

__all__ = ["Span", "end_of", "in_slots", "ran_by_worker", "read_spans"]


class Span(NamedTuple):
    """One turn in time, in seconds by ``time.time()``.

    ``began_at`` is ``None`` if it never ran; ``ended_at`` is always there: of a turn that runs
    still it is now, of one that a kill cut short the run's end. ``seconds`` is the last attempt's.
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

    @property
    def begin(self) -> float:
        """When it began, or was submitted, if it never did."""
        return self.submitted_at if self.began_at is None else self.began_at


_ENDED = Span._fields.index("ended_at")


def end_of(run: RecordedRun) -> float:
    """Return when the run ended; of one that goes on, now."""
    ended_at = run.summary.ended_at
    return time.time() if ended_at is None else ended_at


def read_spans(run: RecordedRun) -> list[Span]:
    """Return every turn, in the order of submission."""
    end = end_of(run)
    found = []
    for row in run.columns(Span._fields):
        span = Span._make(row)
        if row[_ENDED] is None or span.ended_at < span.begin:
            span = span._replace(ended_at=max(end, span.begin))
        found.append(span)
    return found


def ran_by_worker(spans: Iterable[Span]) -> dict[int, list[Span]]:
    """Return the turns that ran, by worker, workers and turns in the order in which they began."""
    ran = sorted((one for one in spans if one.began_at is not None), key=lambda one: one.begin)
    by_worker = defaultdict(list)
    for span in ran:
        by_worker[span.worker or 0].append(span)
    return dict(by_worker)


def in_slots(times: Sequence[tuple[float, float]], most: int = 0) -> Iterator[int | None]:
    """Yield a slot for each span of time, from 0, such that those of one slot do not overlap.

    ``times`` are in the order of their beginnings. Slots are as few as can be. With ``most``,
    what would need one more gets ``None``.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    used = 0
    for begin, end in times:
        while busy and busy[0][0] <= begin:
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
