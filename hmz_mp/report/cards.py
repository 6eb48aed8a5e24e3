"""What the page shows of each turn: read from the ledger, made printable, cut to a length.

Imported by ``page``; it knows nothing of HTML. Nothing of a card can act on a terminal or hide from
a reader; escaping for HTML is for who writes it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp.report.spans import ran_from
from hmz_mp.terminal import printable
from hmz_mp.worktrees.patches import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hmz_mp.report.spans import Clock
    from hmz_mp.runs.reading import PatchState, RecordedRun

__all__ = ["STATUS_WORDS", "Card", "read_cards"]

STATUS_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "needs_review": "needs review",
    "cancelled": "stopped",
    "not_run": "not run",
    "running": "running",
    "waiting": "waiting",
    "queued": "queued",
}

# All texts of a page together have about this many characters, so that a browser bears it.
_WHOLE = 30_000_000
_LONGEST, _SHORTEST = 20_000, 240  # what one text of one turn may have


class Card(NamedTuple):
    """One turn as the page shows it, in seconds; ``began`` and ``ended`` since the run began.

    A turn that never ran has no ``began``; ``ended`` of one that did is always there.
    ``session`` is given where it had several turns.
    """

    number: int
    item_id: str
    status: str
    seconds: float | None
    waited: float | None
    began: float | None
    ended: float
    attempts: int
    worker: int | None
    tokens: int
    cost_usd: float
    agent: str
    session: str
    place: int
    error: str | None
    answer: str | None
    detail: str | None
    output: str | None
    diff: str | None


_COLUMNS = (
    "number",
    "item_id",
    "state",
    "seconds",
    "submitted_at",
    "began_at",
    "ended_at",
    "attempts",
    "worker",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "agent",
    "session",
    "place",
    "failure",
    "error",
    "answer",
    "detail",
    "output",
    "execution",
    "patch",
)


def read_cards(run: RecordedRun, clock: Clock) -> list[Card]:
    """Return every turn, in the order of submission."""
    patches = {} if run.summary.status == "running" else run.patches()
    longest = max(_SHORTEST, min(_LONGEST, _WHOLE // max(run.summary.turns, 1)))
    reader = _Reader(clock, longest, patches)
    return [reader.card(row) for row in run.columns(_COLUMNS)]


class _Reader:
    """Makes cards of rows, none of whose texts is longer than ``longest``."""

    def __init__(self, clock: Clock, longest: int, patches: Mapping[int, PatchState]) -> None:
        self._clock = clock
        self._longest = longest
        self._patches = patches
        self._words: dict[str, str] = {}  # agents, which are few

    def card(self, row: tuple[Any, ...]) -> Card:
        number, item_id, status, seconds, submitted_at, began_at, ended_at, attempts, *rest = row
        worker, read, wrote, cost_usd, agent, session, place, failure, error, *rest = rest
        answer, detail, output, execution, patch = rest
        text = self._text
        began, waited, ended = self._times(
            execution, submitted_at, began_at, ended_at, seconds, attempts
        )
        if status == "ok" and failure == "needs_review":  # so its own finding says
            status = "needs_review"
        if status == "ok" and (problem := self._problem(number)) is not None:
            status, error = "needs_review", problem
        return Card(
            number,
            item_id if item_id.isprintable() else printable(item_id),
            status,
            seconds,
            waited,
            began,
            ended,
            attempts,
            worker,
            (read or 0) + (wrote or 0),
            cost_usd or 0.0,
            self._words.get(agent) or self._word(agent),
            printable(session) if place else "",
            place,
            text(error) if error else None,
            text(answer) if answer else None,
            text(detail) if detail else None,
            text(output) if output else None,
            text(os.fsdecode(text_of(patch))) if patch else None,
        )

    def _times(
        self,
        execution: int | None,
        submitted_at: float,
        began_at: float | None,
        ended_at: float | None,
        seconds: float | None,
        attempts: int,
    ) -> tuple[float | None, float | None, float]:
        shift = self._clock.shift(execution)
        begin = (submitted_at if began_at is None else began_at) + shift
        ended = 0.0 if ended_at is None else ended_at + shift
        if ended_at is None or ended < begin:  # it runs still, or the clock was put back
            ended = max(self._clock.seconds, begin)
        if began_at is None:
            return None, None, ended
        begin = ran_from(begin, ended, seconds, attempts)
        waited = begin - submitted_at - shift
        return begin, waited if waited > 0 else 0.0, ended

    def _problem(self, number: int) -> str | None:
        patch = self._patches.get(number)
        return None if patch is None else patch.problem

    def _word(self, text: str) -> str:
        word = self._words[text] = printable(text)
        return word

    def _text(self, text: str) -> str:
        more = len(text) - self._longest
        if more <= 0:
            return printable(text, multiline=True)
        shown = printable(text[: self._longest], multiline=True)
        return f"{shown}\n… and {more:,} characters more, which `hmz-mp show` shows"
