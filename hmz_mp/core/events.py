"""What running turns say, as events for whoever follows them, and as log records here."""

from __future__ import annotations

import contextlib
import logging

import msgspec

from hmz_mp.core.turns import Event, Logged, Progress, Said
from hmz_mp_worker import wire
from hmz_mp_worker.reporting import LogRecord
from hmz_mp_worker.reporting import Progress as WireProgress

__all__ = ["log_here", "read_event"]

_read_progress = msgspec.msgpack.Decoder(WireProgress).decode
_read_record = msgspec.msgpack.Decoder(LogRecord).decode


def read_event(said: wire.Said) -> Event:
    """Return what a worker's message says."""
    with contextlib.suppress(msgspec.MsgspecError):  # users' code may say a kind of ours
        if said.kind == "progress":
            progress = _read_progress(said.data)
            return Progress(progress.fraction, progress.words)
        if said.kind == "log":
            record = _read_record(said.data)
            return Logged(record.level, record.logger, record.text)
    return Said(said.kind, said.data)


def log_here(event: Logged, turn_id: int, item_id: str | None) -> None:
    """Hand a worker's log record to this process's logging, with the turn that logged it."""
    logger = logging.getLogger(event.logger)
    if logger.isEnabledFor(event.level):
        extra = {"turn_id": turn_id, "item_id": item_id}
        record = logger.makeRecord(
            event.logger, event.level, "", 0, event.text, (), None, extra=extra
        )
        logger.handle(record)
