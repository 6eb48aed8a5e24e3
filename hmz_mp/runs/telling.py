"""What is written down of what a turn says and does: a kind and a text for each event.

Imported by ``runs.run``. It knows the events of pools and agents, and nothing of ledgers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.core.turns import Logged, Progress, PutBack, Said, Shipped
from hmz_mp_worker.backends.protocol import Did

if TYPE_CHECKING:
    from hmz_mp.core.ambient import TurnRecord

__all__ = ["TRIED", "Tried", "told_of"]

TRIED = "tried"  # the kind of what an earlier try came to
_DETAIL = 4000  # characters of what it says beside its error


class Tried(NamedTuple):
    """A turn takes the place of one that was tried before, and how that ended."""

    record: TurnRecord


def told_of(record: TurnRecord, event: object) -> tuple[str, str] | None:
    """Return the kind and the text of an event, or ``None`` for one that is in the turn's row."""
    match event:
        case Did(words=words):
            return "tool", words
        case Said(kind="text", data=data):
            # A command's output is its answer; what an agent says need not be.
            talks = record.conversation is not None
            return ("text", data.decode("utf-8", "surrogateescape")) if talks else None
        case Said(kind="reasoning", data=data):
            return "reasoning", data.decode("utf-8", "surrogateescape")
        case Progress(fraction=fraction, words=words):
            return "progress", f"{fraction:.2f} {words}".rstrip()
        case Logged(level=level, logger=logger, text=text):
            return "log", f"{logging.getLevelName(level)} {logger}: {text}"
        case PutBack(seconds=seconds):
            return "waiting", f"{seconds:.3f}"
        case Shipped(worker=worker):
            return "attempt", str(worker)
        case Tried(record=earlier):
            return TRIED, _came_to(earlier)
        case _:
            return None


def _came_to(earlier: TurnRecord) -> str:
    """Return what a try failed with: its error on the first line, and the end of the rest."""
    error = earlier.error or earlier.error_type or "its answer was not taken"
    detail = (earlier.detail or "").rstrip()
    return f"{error}\n{detail[-_DETAIL:]}" if detail else error
