"""A run as one HTML page that needs nothing else: no network, no script for what matters most.

Imported by ``cli.report``. What comes from elsewhere is printable text (``cards``), escaped by
jinja, and by the script set as text, never as HTML; a content security policy lets nothing run or
load but the page's own script.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import heapq
import time
from collections import Counter
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec

from hmz_mp import __version__
from hmz_mp.report.cards import STATUS_WORDS, Card, read_cards
from hmz_mp.report.figures import reasons, spread
from hmz_mp.report.spans import Clock
from hmz_mp.report.timeline import WIDTH, timeline
from hmz_mp.runs.words import duration, local_time, used, written_command
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hmz_mp.runs.costs import Costs
    from hmz_mp.runs.reading import RecordedRun
    from hmz_mp.runs.summaries import RunSummary

__all__ = ["page_pieces"]

_UNSUCCESSFUL = {"failed": 0, "needs_review": 1, "cancelled": 2, "not_run": 3}  # the worst first
_FAILED_SHOWN = 200
_SLOWEST_SHOWN = 20
_ITEMS_SHOWN = 200  # without a script; with one, all
_REASONS_SHOWN = 10
_STATIC_TEXT = 4000  # characters of a text outside the script's data


def page_pieces(run: RecordedRun, now: float | None = None) -> Iterator[str]:
    """Yield the page, piece by piece. ``now`` is when it is written (``time.time()``)."""
    now = time.time() if now is None else now
    with _no_collections():
        clock = Clock(run)
        cards = read_cards(run, clock)
        context = _context(run, cards, clock, now)
    template = _environment().get_template("report.html")
    before, after = template.render(context).split(_DATA_GOES_HERE)
    yield before
    yield _data(cards)
    yield after


# A comment that the template has where the data goes; foreign text cannot hold it, as it is
# escaped. Rendering megabytes through a template would only cost time.
_DATA_GOES_HERE = "<!-- data -->"


@contextmanager
def _no_collections() -> Iterator[None]:
    """Look for no cycles meanwhile: a hundred thousand cards are looked through again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hmz_mp.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = lambda seconds: "" if seconds is None else duration(seconds)
    environment.filters["money"] = lambda dollars: f"${dollars:,.2f}" if dollars else ""
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["brief"] = _brief
    return environment


def _brief(text: str) -> str:
    if len(text) <= _STATIC_TEXT:
        return text
    return f"{text[:_STATIC_TEXT]}\n… and more, in the list of items below"


def _context(run: RecordedRun, cards: list[Card], clock: Clock, now: float) -> dict[str, Any]:
    summary = run.summary
    unsuccessful = [one for one in cards if one.status in _UNSUCCESSFUL]
    unsuccessful.sort(key=_concern)
    slowest = heapq.nsmallest(_SLOWEST_SHOWN, filter(_ran, cards), key=_slowness)
    script, style = _asset("script.js"), _asset("style.css")
    costs = run.costs()
    return {
        "run": summary,
        "version": __version__,
        "written": local_time(now),
        "fields": list(_fields(summary, clock, cards, costs)),
        "counts": _counts(cards),
        "words": STATUS_WORDS,
        "timeline": timeline(cards, clock.seconds),
        "width": WIDTH,
        "spread": spread(cards),
        "reasons": reasons(unsuccessful, _REASONS_SHOWN),
        "unsuccessful": unsuccessful[:_FAILED_SHOWN],
        "unsuccessful_count": len(unsuccessful),
        "slowest": slowest,
        "costs": costs,
        "models": [(printable(one.model), one) for one in costs.models],
        "has_tokens": any(one.tokens for one in cards),
        "cards": cards[:_ITEMS_SHOWN],
        "total": len(cards),
        "script": script,
        "style": style,
        "script_hash": _hash(script),
        "style_hash": _hash(style),
        "over": summary.status != "running",
    }


def _concern(card: Card) -> int:
    return _UNSUCCESSFUL[card.status]


def _ran(card: Card) -> bool:
    return card.seconds is not None


def _slowness(card: Card) -> tuple[float, int]:
    return -(card.seconds or 0.0), card.number


def _counts(cards: list[Card]) -> list[tuple[str, str, int]]:
    """Return each status there is, its word, and how many turns have it."""
    counted = Counter(card.status for card in cards)
    return [(name, word, counted[name]) for name, word in STATUS_WORDS.items() if counted[name]]


def _fields(
    summary: RunSummary, clock: Clock, cards: list[Card], costs: Costs
) -> Iterator[tuple[str, str]]:
    yield "command", printable(written_command(summary.command))
    yield "flow", printable(summary.flow)
    if summary.task:
        yield "task", printable(summary.task, multiline=True)
    yield "agents", printable(", ".join(summary.agents))
    yield "options", printable(_options(summary)) or "none"
    yield "began", local_time(summary.started_at)
    seconds = clock.seconds
    yield "took", duration(seconds)
    if clock.executions > 1:
        times = clock.executions - 1
        yield "resumed", "once" if times == 1 else f"{times} times; the time between is left out"
    busy = sum(one.seconds or 0.0 for one in cards)
    if seconds and busy:
        yield "at once", f"{busy / seconds:,.1f} turns on an average"
    if costs.models:
        yield "used", used(costs.models)


def _options(summary: RunSummary) -> str:
    return ", ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in summary.options.items()
        if value and not isinstance(value, dict)  # what was given, once more
    )


def _asset(name: str) -> str:
    return files("hmz_mp.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(cards: list[Card]) -> str:
    """Return all cards as JSON that cannot end the element it is in."""
    text = msgspec.json.encode({"fields": Card._fields, "words": STATUS_WORDS, "cards": cards})
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").decode()
