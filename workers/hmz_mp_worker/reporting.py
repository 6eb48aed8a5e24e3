"""What a running turn says beside its answer, and what it is told by its coordinator.

Called by users' code in a worker. Outside one, `progress` and `say` do nothing, so that the same
function works when it is called plainly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.state import current_turn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LogRecord", "Progress", "listen", "progress", "say", "ship_logging"]


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a turn is: ``fraction`` from 0 to 1, and words for people."""

    fraction: float
    words: str


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """A log record of a turn."""

    level: int
    logger: str
    text: str


_encode = msgspec.msgpack.Encoder().encode


def say(kind: str, data: bytes) -> None:
    """Send something about the running turn to its coordinator."""
    turn = current_turn()
    if turn is not None:
        turn.speaker.say(turn.ticket, kind, data)


def listen(listener: Callable[[bytes], None]) -> None:
    """Have ``listener`` called with whatever the coordinator tells the running turn."""
    turn = current_turn()
    if turn is not None:
        turn.listen(listener)


def progress(fraction: float, words: str = "") -> None:
    """Report how far the running turn is: ``fraction`` from 0 to 1, ``words`` for people."""
    text = str(words).encode("utf-8", "backslashreplace").decode("utf-8")
    say("progress", _encode(Progress(float(fraction), text)))


class _ShipHandler(logging.Handler):
    """Sends each record to the coordinator, with the turn that logged it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record).encode("utf-8", "backslashreplace").decode("utf-8")
            say("log", _encode(LogRecord(record.levelno, record.name, text)))
        except Exception:  # as logging itself does: a record that cannot be formatted
            self.handleError(record)


def ship_logging(level: int) -> None:
    """Send what is logged in this process at ``level`` or above to the coordinator."""
    root = logging.getLogger()
    root.addHandler(_ShipHandler())
    root.setLevel(level)
