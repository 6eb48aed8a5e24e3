"""A turn as a flat row: everything that the ledger has of it, for programs.

Pure. Imported by ``cli.export``; it knows nothing of files. Text stays as it is, whatever is in it:
lone surrogates stand for bytes that are not UTF-8, as Python's ``os.fsdecode`` gives them.
"""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hmz_mp.worktrees.patches import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.reading import PatchState

__all__ = ["FIELDS", "csv_lines", "full_row", "jsonl_lines"]

FIELDS = (
    "number",
    "item_id",
    "status",
    "answer",
    "error",
    "error_type",
    "failure",
    "detail",
    "output",
    "seconds",
    "attempts",
    "worker",
    "submitted_at",
    "began_at",
    "ended_at",
    "agent",
    "session",
    "place",
    "conversation",
    "cwd",
    "path",
    "prompt",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "usage",
    "patch",
)


def full_row(turn: TurnRecord, patch: PatchState | None = None) -> dict[str, object]:
    """Return all that is known of a turn, under the names in `FIELDS`, in their order.

    ``status`` is as ``hmz-mp exec --json`` says it, and of a turn that has not ended its state.
    Times are ISO 8601 in UTC; ``usage`` is a list, by model.
    """
    status, error = _status(turn), turn.error
    if status == "ok" and patch is not None and patch.problem is not None:
        status, error = "needs_review", patch.problem
    given: dict[str, object] = {
        "status": status,
        "error": error,
        "path": None if turn.path is None else os.fsdecode(turn.path),
        "submitted_at": _iso(turn.submitted_at),
        "began_at": _iso(turn.began_at),
        "ended_at": _iso(turn.ended_at),
        "usage": json.loads(turn.usage) if turn.usage else [],
        "patch": None if turn.patch is None else os.fsdecode(text_of(turn.patch)),
    }
    return {name: given[name] if name in given else getattr(turn, name) for name in FIELDS}


def jsonl_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield each row as one JSON object on a line, in ASCII, so that nothing in it is lost."""
    for row in rows:
        yield json.dumps(row) + "\n"


def csv_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield a line of headings, then each row as RFC 4180 has it; what is a list, as JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)

    def line(cells: Iterable[object]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    yield line(FIELDS)
    for row in rows:
        yield line(map(_cell, row.values()))


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value


def _status(turn: TurnRecord) -> str:
    if turn.state == "ok" and turn.failure == "needs_review":  # so its own finding says
        return "needs_review"
    return "failed" if turn.state == "cancelled" else turn.state


def _iso(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
