"""What the workers did over time, as shapes to be drawn.

Pure; imported by ``page``. Shapes are in a box `WIDTH` wide and as high as their lane says, whose
width a page may stretch. A lane of few turns has a bar for each; one of many an area: how many ran
in each slice of time. So a picture does not grow with the number of turns.
"""

from __future__ import annotations

from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.report.spans import TOLD_LATE, in_slots
from hmz_mp.runs.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hmz_mp.report.cards import Card

__all__ = ["WIDTH", "Bar", "Lane", "Timeline", "levels", "timeline"]

WIDTH = 1000
_SLICES = 500
_BARS = 300  # turns of a lane that are drawn each
_BARS_IN_ALL = 3000
_WORKERS = 40  # that have a lane of their own
_SLOTS = 12  # bars above each other
_HEIGHT, _SLOT = 22, 9
_MARKS = 200  # more of them would be a line, and say nothing
_LEAST_WIDTH = 0.6


class Bar(NamedTuple):
    """One turn in its lane."""

    x: float
    y: float
    width: float
    height: float
    status: str
    title: str


class Lane(NamedTuple):
    """A row of the timeline: bars, or an area with a mark where a turn did not go well."""

    label: str
    note: str
    kind: str
    height: int
    bars: tuple[Bar, ...] = ()
    area: str = ""
    marks: tuple[float, ...] = ()


class Timeline(NamedTuple):
    """Lanes over the same time, and what to write below them: how far along, and what."""

    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]


def timeline(cards: Sequence[Card], end: float) -> Timeline | None:
    """Return the timeline of a run that took until ``end``, or ``None`` if nothing ran."""
    ran = [one for one in cards if one.began is not None]
    if not ran:
        return None
    drawing = _Drawing(min(0.0, *(_began(one) for one in ran)), max(end, *map(_ended, ran)))
    workers = _by_worker(ran)
    levels_of = {worker: drawing.levels(map(_began_ended, of_one)) for worker, of_one in workers}
    every = [sum(one) for one in zip(*levels_of.values(), strict=True)]
    lanes = [drawing.area("all workers", "running", ran, every)]
    lanes += drawing.waiting(cards)
    draw_each = len(ran) <= _BARS_IN_ALL
    for worker, of_one in workers[:_WORKERS]:
        bars = drawing.bars(worker, of_one) if draw_each and len(of_one) <= _BARS else None
        name = f"worker {worker}"
        lanes.append(bars or drawing.area(name, "busy", of_one, levels_of[worker]))
    rest = workers[_WORKERS:]
    if rest:
        together = [sum(one) for one in zip(*(levels_of[it] for it, _ in rest), strict=True)]
        of_rest = [one for _, of_one in rest for one in of_one]
        lanes.append(drawing.area(f"{len(rest)} more workers", "busy", of_rest, together))
    return Timeline(tuple(lanes), drawing.ticks())


def levels(times: Iterable[tuple[float, float]], start: float, end: float) -> list[float]:
    """Return how many of ``times`` went on in each of `_SLICES` slices, on an average."""
    scale = _SLICES / (end - start)
    parts = [0.0] * (_SLICES + 1)
    steps = [0] * (_SLICES + 2)
    for begin, until in times:
        first = (begin - start) * scale
        last = (until - start) * scale
        low, high = int(first), int(last)
        if low == high:
            parts[low] += last - first
        else:
            parts[low] += low + 1 - first
            parts[high] += last - high
            steps[low + 1] += 1
            steps[high] -= 1
    return [part + whole for part, whole in zip(parts[:_SLICES], accumulate(steps), strict=False)]


def _by_worker(ran: list[Card]) -> list[tuple[int, list[Card]]]:
    by_worker: dict[int, list[Card]] = {}
    for card in sorted(ran, key=_began):
        by_worker.setdefault(card.worker or 0, []).append(card)
    return list(by_worker.items())


_began: Callable[[Card], float] = attrgetter("began")
_ended: Callable[[Card], float] = attrgetter("ended")
_began_ended: Callable[[Card], tuple[float, float]] = attrgetter("began", "ended")


class _Drawing:
    """Turns times into shapes."""

    def __init__(self, start: float, end: float) -> None:
        self._start = start
        self._end = max(end, start + 1e-3)
        self._scale = WIDTH / (self._end - start)

    def levels(self, times: Iterable[tuple[float, float]]) -> list[float]:
        return levels(times, self._start, self._end)

    def bars(self, worker: int, ran: list[Card]) -> Lane | None:
        """Return a lane with a bar for each turn, ``None`` if too many ran at once."""
        found = in_slots(list(map(_began_ended, ran)), _SLOTS, TOLD_LATE)
        slots = [slot for slot in found if slot is not None]
        if len(slots) < len(ran):
            return None
        used = 1 + max(slots)
        height = max(_HEIGHT, used * _SLOT)
        each = height / used
        bars = tuple(
            self._bar(one, slot * each, each) for one, slot in zip(ran, slots, strict=True)
        )
        return Lane(f"worker {worker}", _note(ran), "bars", height, bars)

    def area(self, label: str, kind: str, ran: list[Card], found: list[float]) -> Lane:
        failed = (_ended(one) for one in ran if one.status == "failed")
        marks = sorted({round(self._x(moment)) for moment in failed})
        if len(marks) > _MARKS:
            marks = []
        note = _note(ran)
        if (most := max(found)) > 1.5:
            note += f", up to {most:,.0f} at once"
        return Lane(label, note, kind, _HEIGHT, area=_path(found), marks=tuple(map(float, marks)))

    def waiting(self, cards: Sequence[Card]) -> Iterator[Lane]:
        times = [
            (max(began - waited, self._start), began)
            for _, _, _, _, waited, began, *_ in cards
            if began is not None and waited
        ]
        if times:
            found = self.levels(times)
            most = max(found)
            note = f"up to {most:,.0f} waited" if most >= 1 else "hardly any waited"
            yield Lane("waiting to run", note, "waited", _HEIGHT, area=_path(found))

    def ticks(self) -> tuple[tuple[float, str], ...]:
        seconds = self._end - self._start
        return (0.0, "0 s"), *(
            (share * 25.0, duration(seconds * share / 4)) for share in range(1, 5)
        )

    def _bar(self, card: Card, y: float, height: float) -> Bar:
        x = self._x(_began(card))
        width = max(_LEAST_WIDTH, self._x(card.ended) - x)
        title = f"{card.item_id}: {duration(card.ended - _began(card))}"
        gap = 1 if height > 2 else 0
        return Bar(
            round(x, 2), round(y, 2), round(width, 2), round(height - gap, 2), card.status, title
        )

    def _x(self, moment: float) -> float:
        return (moment - self._start) * self._scale


def _note(ran: list[Card]) -> str:
    failed = sum(one.status == "failed" for one in ran)
    turns = f"{len(ran):,} turn{'' if len(ran) == 1 else 's'}"
    return f"{turns}, {failed:,} failed" if failed else turns


def _path(found: list[float]) -> str:
    """Return the area below steps, as an SVG path; the highest reaches the top."""
    top = max(found) or 1.0
    step = WIDTH / len(found)
    parts = [f"M0 {_HEIGHT}"]
    before = None
    for place, level in enumerate(found):
        y = round(_HEIGHT - level / top * (_HEIGHT - 1), 1)
        if y != before:
            if before is not None:
                parts.append(f"H{place * step:g}")
            parts.append(f"V{y:g}")
            before = y
    parts.append(f"H{WIDTH}V{_HEIGHT}Z")
    return "".join(parts)
