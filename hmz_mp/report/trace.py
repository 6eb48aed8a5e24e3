"""A run as a trace in Chrome's JSON format, which Perfetto opens.

Imported by ``cli.trace``. A process stands for each worker, a thread for each of its turns that
run at once; other processes have the sessions of several turns, the turns that wait, and how many
there are. All text is made printable: viewers are programs of others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

from hmz_mp.report.phases import Did, phases, read_deeds
from hmz_mp.report.spans import TOLD_LATE, Clock, Span, in_slots, ran_by_worker, read_spans
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hmz_mp.runs.reading import RecordedRun

__all__ = ["trace_pieces"]

_TEXT = 500  # characters of an error in an argument
_WAITING_ROWS = 100  # turns that wait at once, of which each is shown
_SHORTEST_WAIT = 0.001  # seconds
_SAMPLES = 2000  # of how many run and wait
_NO_WORKER = 10_000_000  # ids of processes that are no workers begin above all pids
_COLOURS = {"ok": "good", "failed": "terrible", "cancelled": "bad", "running": "yellow"}

Event = dict[str, Any]


def trace_pieces(run: RecordedRun) -> Iterator[str]:
    """Yield the trace, piece by piece.

    Times are microseconds since the run began, without the gaps between executions of one that was
    resumed.
    """
    clock = Clock(run)
    spans = read_spans(run, clock)
    summary = run.summary
    about = {
        "run_id": summary.run_id,
        "status": summary.status,
        "problem": summary.problem,
        "started_at": summary.started_at,
        "executions": clock.executions,
        "command": [printable(word) for word in summary.command],
    }
    yield '{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n'
    tracks = _Tracks(clock.seconds, read_deeds(run))
    for position, event in enumerate(tracks.events(spans)):
        yield (",\n" if position else "") + json.dumps(event)
    yield "\n]}\n"


class _Tracks:
    """Hands out process and thread ids as it yields events; no thread id is given twice."""

    def __init__(self, end: float, deeds: dict[int, list[Did]]) -> None:
        self._deeds = deeds
        self._end = end
        self._threads = count(1)
        self._processes = count(1)

    def events(self, spans: Sequence[Span]) -> Iterator[Event]:
        yield from self._counters(spans)
        for worker, ran in ran_by_worker(spans).items():
            yield from self._worker(worker, ran)
        yield from self._sessions(spans)
        yield from self._waiting(spans)

    def _process(self, name: str, number: int | None = None) -> tuple[int, list[Event]]:
        order = next(self._processes)
        pid = _NO_WORKER + order if number is None else number
        meta = {"ph": "M", "pid": pid, "tid": 0}
        return pid, [
            meta | {"name": "process_name", "args": {"name": name}},
            meta | {"name": "process_sort_index", "args": {"sort_index": order}},
        ]

    def _thread(self, pid: int, name: str) -> tuple[int, Event]:
        tid = next(self._threads)
        meta = {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        return tid, meta

    def _slice(self, pid: int, tid: int, name: str, begin: float, end: float) -> Event:
        ts, until = self._micros(begin), self._micros(end)
        dur = max(0, until - ts)
        return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur}

    @staticmethod
    def _micros(moment: float) -> int:
        # Whole ones: what is inside another slice must not end after it for a rounding.
        return round(moment * 1e6)

    def _rows(
        self, pid: int, rows: Iterable[tuple[int | None, Span]], name: str
    ) -> Iterator[tuple[int, Span, list[Event]]]:
        """Yield the thread of each span, with what names it where it is the first of its row."""
        threads: dict[int, int] = {}
        for slot, span in rows:
            if slot is None:
                continue
            named = []
            if slot not in threads:
                threads[slot], meta = self._thread(pid, f"{name} {slot + 1}")
                named = [meta]
            yield threads[slot], span, named

    def _worker(self, worker: int, ran: list[Span]) -> Iterator[Event]:
        pid, named = self._process(f"worker {worker}", worker)
        yield from named
        slots = in_slots([(one.begin, one.ended_at) for one in ran], slack=TOLD_LATE)
        last: dict[int, float] = {}
        for tid, span, meta in self._rows(pid, zip(slots, ran, strict=True), "at once"):
            yield from meta
            span = _not_before(span, last.get(tid, span.begin))
            last[tid] = max(span.ended_at, last.get(tid, span.ended_at))
            yield from self._turn(pid, tid, span)

    def _turn(self, pid: int, tid: int, span: Span) -> Iterator[Event]:
        event = self._slice(pid, tid, printable(span.item_id), span.begin, span.ended_at)
        yield event | {"cat": "turn", "args": _arguments(span), "cname": _COLOURS.get(span.state)}
        alone = span.attempts <= 1 and not any(one.kind == "waiting" for one in self._of(span))
        for part in phases(span, self._of(span)):
            if part.kind == "attempt" and alone:
                continue  # it would be the turn once more
            inner = self._slice(pid, tid, printable(part.name), part.begin, part.end)
            yield inner | {"cat": part.kind}

    def _of(self, span: Span) -> list[Did]:
        return self._deeds.get(span.number, [])

    def _sessions(self, spans: Sequence[Span]) -> Iterator[Event]:
        """Yield the sessions that had several turns, each with its turns inside."""
        turns = defaultdict(list)
        for span in spans:
            if span.began_at is not None:
                turns[span.session].append(span)
        several = [sorted(one, key=lambda it: it.begin) for one in turns.values() if len(one) > 1]
        if not several:
            return
        several.sort(key=lambda one: one[0].begin)
        pid, named = self._process("sessions")
        yield from named
        times = [(one[0].begin, max(it.ended_at for it in one)) for one in several]
        threads: dict[int | None, int] = {}
        for slot, of_one, (begin, end) in zip(in_slots(times), several, times, strict=True):
            if slot not in threads:
                threads[slot], meta = self._thread(pid, f"session {slot}")
                yield meta
            tid = threads[slot]
            name = printable(f"{of_one[0].agent} {of_one[0].session}")
            yield self._slice(pid, tid, name, begin, end) | {"cat": "session"}
            last = begin
            for span in of_one:
                span = _not_before(span, last)
                last = max(last, span.ended_at)
                yield from self._turn(pid, tid, span)

    def _waiting(self, spans: Sequence[Span]) -> Iterator[Event]:
        """Yield the time before turns began, for as many as can be shown."""
        waited = sorted(
            (one for one in spans if _wait(one) >= _SHORTEST_WAIT), key=lambda one: one.submitted_at
        )
        if not waited:
            return
        pid, named = self._process("waiting for a limit or a worker")
        yield from named
        slots = in_slots([(one.submitted_at, _until(one)) for one in waited], _WAITING_ROWS)
        for tid, span, meta in self._rows(pid, zip(slots, waited, strict=True), "waiting"):
            yield from meta
            name = printable(span.item_id)
            event = self._slice(pid, tid, name, span.submitted_at, _until(span))
            yield event | {"cat": "waiting"}

    def _counters(self, spans: Sequence[Span]) -> Iterator[Event]:
        pid, named = self._process("turns")
        yield from named
        began = [one.began_at for one in spans if one.began_at is not None]
        ended = [one.ended_at for one in spans if one.began_at is not None]
        submitted = [one.submitted_at for one in spans]
        left = [_until(one) for one in spans]
        moments = _moments(self._end, [*left, *ended, *submitted])
        for name, ups, downs in (("running", began, ended), ("waiting", submitted, left)):
            for moment, value in zip(moments, _levels(moments, ups, downs), strict=True):
                counter = {"ph": "C", "pid": pid, "tid": 0, "name": name}
                yield counter | {"ts": self._micros(moment), "args": {name: value}}


def _not_before(span: Span, moment: float) -> Span:
    """Return a span that begins after the one before, whose end was told of late."""
    return span._replace(began_at=min(max(span.begin, moment), span.ended_at))


def _until(span: Span) -> float:
    return span.ended_at if span.began_at is None else span.began_at


def _wait(span: Span) -> float:
    return _until(span) - span.submitted_at


def _moments(end: float, changes: list[float]) -> list[float]:
    """Return when to say how many there are: at every change, or if they are many, evenly."""
    if len(changes) < _SAMPLES:
        return sorted({0.0, *changes})
    return [end * position / _SAMPLES for position in range(_SAMPLES + 1)]


def _levels(moments: list[float], ups: list[float], downs: list[float]) -> Iterator[int]:
    ups, downs = sorted(ups), sorted(downs)
    up = down = 0
    for moment in moments:
        while up < len(ups) and ups[up] <= moment:
            up += 1
        while down < len(downs) and downs[down] <= moment:
            down += 1
        yield up - down


def _arguments(span: Span) -> dict[str, object]:
    found: dict[str, object] = {
        "item": printable(span.item_id),
        "state": span.state,
        "turn": span.number,
        "agent": printable(span.agent),
        "session": span.session,
        "turn of its session": span.place + 1,
        "attempts": span.attempts,
        "waited ms": round(max(0.0, _wait(span)) * 1000, 3),
    }
    if span.input_tokens or span.output_tokens:
        found |= {"tokens read": span.input_tokens, "tokens written": span.output_tokens}
    if span.cost_usd:
        found["US dollars"] = span.cost_usd
    if span.error:
        found["error"] = printable(span.error[:_TEXT])
    return found
