"""A report for programs and for terminals: JSON, CSV, a table.

Owns their columns. Each says how complete the report is, in every row where there are rows.
Imported by ``report``.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import TYPE_CHECKING, Any

from hmz_mp.dispatch.rendering import NotJson, plain
from hmz_mp.fanin.brief import headline, totals
from hmz_mp.fanin.finding import Finding
from hmz_mp.terminal import make_console, safe_text

if TYPE_CHECKING:
    from typing import TextIO

    from rich.table import Table

    from hmz_mp.fanin.report import Report

__all__ = ["COLUMNS", "show", "table", "to_csv", "to_json"]

COLUMNS = ("item_id", "status", "finding", "evidence_ref", "confidence")
_STYLES = {"ok": "green", "failed": "red", "needs_review": "yellow"}


def to_json(report: Report) -> str:
    """Return the report as one JSON object; numbers of the work are in each finding."""
    counts = report.counts()
    values = {
        "complete": report.complete,
        "summary": headline(report),
        "asked": report.asked,
        "answered": report.answered,
        "counts": dict(counts),
        "failed": [{"item_id": one.item_id, "cause": one.finding} for one in report.failed],
        "findings": [_row(report, one) for one in report],
    }
    return json.dumps(values)


def _row(report: Report, finding: Finding) -> dict[str, Any]:
    outcome = report.outcome(finding.item_id)
    try:
        fields = plain(finding)
    except NotJson:  # a subclass has a field that JSON cannot hold
        fields = {name: getattr(finding, name) for name in COLUMNS}
    work = {
        "seconds": round(outcome.seconds, 6),
        "tries": outcome.tries,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
        "cost_usd": outcome.cost_usd,
    }
    return {**fields, **work}


def to_csv(report: Report) -> str:
    """Return the report as CSV.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*COLUMNS, "report"])
    complete = totals(report)
    for one in report:
        writer.writerow([*(_inert(getattr(one, name)) for name in COLUMNS), complete])
    return file.getvalue()


def _inert(text: str) -> str:
    """Return a cell that no spreadsheet computes or starts a program for."""
    first = text.lstrip()[:1]
    active = first == "=" or (first in "+-@" and first and any(mark in text for mark in "(|!"))
    return f"'{text}" if active else text


def table(report: Report) -> Table:
    """Return the report as a table, its headline as the title, and again below."""
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=safe_text(headline(report), "bold" if report.complete else "bold red"),
        title_justify="left",
        caption=None if report.complete else safe_text(totals(report), "bold red"),
        caption_justify="left",
    )
    for name in ("item", "status", "finding", "evidence", "confidence"):
        made.add_column(name, overflow="fold")
    for one in report:
        made.add_row(
            safe_text(one.item_id),
            Text(one.status, _STYLES.get(one.status, "")),
            safe_text(one.finding, multiline=True),
            safe_text(one.evidence_ref),
            Text(one.confidence),
        )
    return made


def show(report: Report, file: TextIO | None) -> None:
    """Write the table to ``file``, by default standard output."""
    console = make_console(stderr=False)
    console.file = sys.stdout if file is None else file
    console.print(table(report))
