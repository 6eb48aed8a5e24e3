"""What changes in a run, one thing after another, read from its ledger as it is written.

Imported by ``cli.watch``; it knows nothing of how it is told, nor of how waiting is done. No more
turns are held than are told together, and of the others a mark each, until they have ended.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.runs.backlog import BATCH_SECONDS, ENDED
from hmz_mp.runs.reading import PatchState, RecordedRun
from hmz_mp.runs.summaries import RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.costs import ModelUsage

__all__ = ["RunBegins", "RunEnds", "TurnChanges", "changes"]

_AT_A_TIME = 64  # turns


class RunBegins(NamedTuple):
    """The run as it stood when it was looked at first, and what had been used of models."""

    summary: RunSummary
    models: tuple[ModelUsage, ...]


class TurnChanges(NamedTuple):
    """A turn as it is now; ``patch`` is what became of its patch, once the run is over."""

    turn: TurnRecord
    patch: PatchState | None


class RunEnds(NamedTuple):
    """The run as it ended, and what was used of models."""

    summary: RunSummary
    models: tuple[ModelUsage, ...]

    @property
    def was_killed(self) -> bool:
        """Whether its process has gone without a word."""
        return self.summary.exit_code is None


def changes(
    directory: Path, wait: Callable[[float], object]
) -> Iterator[RunBegins | TurnChanges | RunEnds]:
    """Yield the run, each of its turns as it is, then each change as it is written, and the end.

    The counts of the run are those of the turns that follow it at once, though some of these may be
    further on by then. Changes that come between two looks are one. ``wait`` is called with the
    seconds until the next look: a tenth, which is how often a ledger is written, or as long as
    looking costs a tenth of the time. It may raise.
    Raises `BadInput` when the ledger cannot be read.
    """
    marks = _Marks()
    is_begun = False
    while True:
        with RecordedRun(directory) as run:
            numbers = marks.changed(run)
            if not is_begun:
                is_begun = True
                yield RunBegins(replace(run.forecast(), counts=marks.counts()), _models(run))
            if run.summary.status != "running":
                patches = run.patches()
                unapplied = (number for number, patch in patches.items() if patch.problem)
                yield from _tell(run, marks, sorted({*numbers, *unapplied}), patches)
                yield RunEnds(run.summary, _models(run))
                return
            yield from _tell(run, marks, numbers, {})
            yield from _while_it_goes_on(run, marks, wait)


def _while_it_goes_on(
    run: RecordedRun, marks: _Marks, wait: Callable[[float], object]
) -> Iterator[TurnChanges]:
    commits, took = -1, 0.0
    while run.goes_on():
        wait(max(BATCH_SECONDS, 9 * took))
        if (now := run.commits()) == commits:
            continue
        commits, began = now, time.perf_counter()
        numbers = marks.changed(run)
        took = time.perf_counter() - began
        yield from _tell(run, marks, numbers, {})


def _tell(
    run: RecordedRun, marks: _Marks, numbers: list[int], patches: Mapping[int, PatchState]
) -> Iterator[TurnChanges]:
    # Nothing of the ledger is being read while somebody writes what was told, perhaps to a pipe
    # that nobody empties: until a reader of it is done, its log of changes cannot be shortened.
    for start in range(0, len(numbers), _AT_A_TIME):
        for turn in list(run.numbered(*numbers[start : start + _AT_A_TIME])):
            marks.told(turn)
            yield TurnChanges(turn, patches.get(turn.number))


def _models(run: RecordedRun) -> tuple[ModelUsage, ...]:
    return tuple(run.costs().models)


class _Marks:
    """How the turns were when they were told, as far as they may change.

    Its whole state: a mark for each turn that was looked at last; from which number on they are
    looked at; and which execution of the run they are of. What has ended does not change in the
    first execution, unless it is tried again; in later ones all are looked at.
    """

    def __init__(self) -> None:
        self._marks: dict[int, tuple[object, ...]] = {}
        self._first = 0
        self._execution = 0

    def counts(self) -> dict[str, int]:
        """Return how many of the turns that were looked at last are in each state."""
        return dict(Counter(str(state) for state, *_ in self._marks.values()))

    def changed(self, run: RecordedRun) -> list[int]:
        """Return the numbers of the turns that are not as they were told, in their order."""
        execution = run.execution()
        if execution != self._execution:
            self._execution, self._first = execution, 0
        numbers = []
        marks = {}
        first_open = None
        for number, state, *more in run.marks(self._first):
            marks[number] = mark = (state, *more)
            if mark != self._marks.get(number):
                numbers.append(number)
            if first_open is None and state not in ENDED and number >= self._first:
                first_open = number
        self._marks = marks
        if execution == 1:
            last = max(next(reversed(marks), -1), self._first - 1)
            self._first = last + 1 if first_open is None else first_open
        return numbers

    def told(self, turn: TurnRecord) -> None:
        """Take note that a turn was told, which may have changed since it was looked at."""
        self._marks[turn.number] = (turn.state, turn.attempts, turn.execution)
