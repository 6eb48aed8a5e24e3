"""How times, counts and commands are written for people, and for programs.

Imported by commands and by ``hmz_mp.report``; prints nothing.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hmz_mp.runs.costs import ModelUsage

__all__ = [
    "STATE_WORDS",
    "age",
    "counted",
    "duration",
    "iso_time",
    "local_time",
    "model_used",
    "used",
    "written_command",
]

# The states of turns, as people are told of them, in this order.
STATE_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "cancelled": "stopped while running",
    "not_run": "not run",
    "running": "running",
    "waiting": "waiting",
    "queued": "queued",
}

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def age(seconds: float) -> str:
    """Return how long ago something was: ``just now``, ``5m ago``, ``3h ago``, ``2d ago``."""
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)}m ago"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)}h ago"
    return f"{int(seconds // _DAY)}d ago"


def duration(seconds: float) -> str:
    """Return seconds as people write them: ``8 ms``, ``0.8 s``, ``12 s``, ``3:05``, ``2:10:00``."""
    if 0 < seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    if not minutes:
        return f"{second} s"
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def local_time(moment: float) -> str:
    """Return ``moment`` (``time.time()``) as a date and time of the user's own zone."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso_time(moment: float | None) -> str | None:
    """Return ``moment`` in ISO 8601, in UTC, to the microsecond."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")


def counted(counts: Mapping[str, int]) -> str:
    """Return counts by state as words, those that are nought left out."""
    said = [f"{counts[state]:,} {word}" for state, word in STATE_WORDS.items() if counts.get(state)]
    return ", ".join(said) or "no turns"


def used(models: Sequence[ModelUsage]) -> str:
    """Return what was used of models together: ``$1.50, 300 tokens read, 21 written``."""
    cost = sum(one.cost_usd for one in models)
    read = sum(one.input_tokens for one in models)
    cached = sum(one.cached_tokens for one in models)
    wrote = sum(one.output_tokens for one in models)
    parts = [f"${cost:,.2f}"] if cost else []
    parts.append(f"{read:,} tokens read" + (f" ({cached:,} from a cache)" if cached else ""))
    return ", ".join([*parts, f"{wrote:,} written"])


def model_used(usage: ModelUsage) -> str:
    """Return what was used of one model, on a line that begins with its name."""
    return f"{printable(usage.model)}: {used([usage])}"


def written_command(command: Sequence[str]) -> str:
    """Return a command line as it could be typed, without where the program is installed."""
    program, *arguments = command or [""]
    name = PurePath(program).name
    return shlex.join(["hmz-mp" if name == "__main__.py" else name, *arguments])
