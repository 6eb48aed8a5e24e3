"""What happened within a turn, as spans of time that lie inside each other or apart.

Pure but for the reading. Imported by ``trace``; it knows nothing of how they look. The ledger says
when something happened, not until when: an attempt lasts until the next one or until the turn
waits, and what an agent did until the next thing that is heard of it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hmz_mp.report.spans import Span
    from hmz_mp.runs.reading import RecordedRun

__all__ = ["Did", "Phase", "phases", "read_deeds"]

_KEPT = frozenset({"attempt", "waiting", "tool"})
_TEXT = 200  # characters


class Did(NamedTuple):
    """Something that a turn did, and when the next thing was heard of it, if anything was."""

    at: float
    kind: str
    text: str
    until: float | None


class Phase(NamedTuple):
    """A part of a turn, or of a part of it that came before; ``kind`` is of an event."""

    begin: float
    end: float
    kind: str
    name: str


def read_deeds(run: RecordedRun) -> dict[int, list[Did]]:
    """Return what turns did, by their numbers, in order; only what is of use for phases."""
    found: dict[int, list[Did]] = defaultdict(list)
    last: Did | None = None
    number = -1
    for event in run.events():
        if event.number != number:
            last, number = None, event.number
        if last is not None:
            found[number][-1] = last._replace(until=event.at)
            last = None
        if event.kind in _KEPT:
            last = Did(event.at, event.kind, event.text[:_TEXT], None)
            found[number].append(last)
    return dict(found)


def phases(span: Span, deeds: Iterable[Did]) -> Iterator[Phase]:
    """Yield the parts of a turn that ran, each after the one that it is in."""
    deeds = [_within(span, one) for one in deeds]
    for part in _attempts(span, deeds):
        yield part
        if part.kind != "attempt":
            continue
        for one in deeds:
            if one.kind == "tool" and part.begin <= one.at < part.end:
                until = part.end if one.until is None else min(one.until, part.end)
                yield Phase(one.at, max(until, one.at), "tool", one.text)


def _within(span: Span, did: Did) -> Did:
    # Clocks of events and of rows are read at different moments.
    at = min(max(did.at + span.shift, span.begin), span.ended_at)
    return did._replace(at=at, until=None if did.until is None else did.until + span.shift)


def _attempts(span: Span, deeds: list[Did]) -> Iterator[Phase]:
    """Yield attempts and waits, one after the other; of a turn of one attempt just that."""
    begin, kind, count = span.begin, "attempt", 1
    for one in deeds:
        if one.kind not in ("attempt", "waiting") or (one.kind == kind == "waiting"):
            continue
        if one.at > begin:
            yield Phase(begin, one.at, kind, _name(kind, count))
            count += one.kind == "attempt"
        begin, kind = one.at, one.kind
    if count == 1 and span.attempts > 1 and span.seconds is not None:
        # Nothing says when the others were; the last one's time is known.
        last = max(begin, span.ended_at - span.seconds)
        before = span.attempts - 1
        yield Phase(begin, last, "attempt", f"{before} attempt{'s' * (before > 1)} before")
        begin, count = last, span.attempts
    if begin < span.ended_at:
        yield Phase(begin, span.ended_at, kind, _name(kind, count))


def _name(kind: str, count: int) -> str:
    return f"attempt {count}" if kind == "attempt" else "waits for its service"
