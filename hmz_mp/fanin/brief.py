"""A report in words: one line, all that failed, and as much as fits for a model to read.

Owns the words and what is left out first. Imported by ``report``.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from hmz_mp.fanin.outliers import outlying, spread
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hmz_mp.fanin.finding import Finding
    from hmz_mp.fanin.report import Report

__all__ = ["brief", "headline", "name_of", "one_line", "whole"]

_RESERVE = 30  # characters for the line that says how much is left out
_PLAIN = frozenset("-_./:@+#=")
_MANY = 8  # ids of a group before the rest is a number
_LIKE = 2  # findings that say the same before they are a group
_GROUPS = 12
_OUTLIERS = 8


def headline(report: Report) -> str:
    """Return how many items were answered, and which were not, on one line."""
    line = totals(report)
    if report.failed:
        line += f": {', '.join(name_of(one.item_id) for one in report.failed)}"
    if report.needs_review:
        names = ", ".join(name_of(one.item_id) for one in report.needs_review)
        line += f"; {len(report.needs_review):,} to be reviewed: {names}"
    return line


def totals(report: Report) -> str:
    """Return how many items were asked about, answered and failed."""
    items = f"{report.asked:,} item{'' if report.asked == 1 else 's'}"
    return f"{report.answered:,} of {items} answered, {len(report.failed):,} failed"


def whole(report: Report) -> str:
    """Return the report for people: the headline and a line for each finding."""
    return "\n".join([headline(report), *map(_line, report.findings)])


def _line(finding: Finding) -> str:
    status = "" if finding.status == "ok" else f"[{finding.status}] "
    doubt = " (confidence low)" if finding.confidence == "low" else ""
    where = f" [{one_line(finding.evidence_ref)}]" if finding.evidence_ref else ""
    return f"{name_of(finding.item_id)}: {status}{one_line(finding.finding)}{doubt}{where}"


def brief(report: Report, max_chars: int, *, findings: bool = True) -> str:
    """Return the headline, and after it as many lines as fit, the most telling first."""
    lines = [headline(report)]
    size = len(lines[0])
    left_out = 0
    for line in chain(_lines(report), _findings(report) if findings else ()):
        if size + 1 + len(line) > max_chars - _RESERVE:
            left_out += 1
            continue
        lines.append(line)
        size += 1 + len(line)
    if left_out and size + 1 + len(more := f"({left_out:,} more not shown)") <= max_chars:
        lines.append(more)
    return "\n".join(lines)


def _lines(report: Report) -> Iterator[str]:
    for failure in report.failed:
        yield f"failed: {name_of(failure.item_id)}: {one_line(failure.finding)}"
    answered = [one for one in report if one.status != "failed"]
    if len(answered) < report.answered:
        yield f"of those answered, these are {len(answered):,} that were selected"
    for name in report.metrics():
        yield _metric(report, name)


def _findings(report: Report) -> Iterator[str]:
    answered = [one for one in report if one.status != "failed"]
    groups, single = _alike(answered)
    for text, members in groups:
        yield f"{len(members):,} say: {one_line(text)}: {_names(members)}"
    doubtful = [one for one in answered if one.confidence == "low"]
    if doubtful:
        yield f"{len(doubtful):,} with low confidence: {_names(doubtful)}"
    yield from map(_line, sorted(single, key=_dullness))


def _metric(report: Report, name: str) -> str:
    numbers = report.numbers(name)
    found = spread(numbers)
    if found is None:
        return f"{one_line(name)}: no finite number"
    text = (
        f"{one_line(name)}: median {found.median:g}, from {found.smallest:g} to {found.largest:g}"
    )
    far = list(outlying(numbers))
    if not far:
        return f"{text}, no outliers"
    shown = ", ".join(f"{name_of(item)} {numbers[item]:g}" for item in far[:_OUTLIERS])
    rest = f" and {len(far) - _OUTLIERS:,} more" if len(far) > _OUTLIERS else ""
    return f"{text}; outliers: {shown}{rest}"


def _alike(
    findings: Sequence[Finding],
) -> tuple[list[tuple[str, list[Finding]]], list[Finding]]:
    """Return findings that say the same as groups, the largest first, and the others."""
    times = Counter((one.status, one.finding) for one in findings)
    said = {words for words, count in times.most_common(_GROUPS) if count >= _LIKE}
    groups: dict[tuple[str, str], list[Finding]] = {}
    single = []
    for one in findings:
        words = (one.status, one.finding)
        if words in said:
            groups.setdefault(words, []).append(one)
        else:
            single.append(one)
    ordered = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    return [(words[1], members) for words, members in ordered], single


def _dullness(finding: Finding) -> tuple[bool, bool]:
    return finding.status == "ok", finding.confidence == "high"


def _names(findings: Sequence[Finding]) -> str:
    names: Iterable[str] = (name_of(one.item_id) for one in findings[:_MANY])
    rest = f" and {len(findings) - _MANY:,} more" if len(findings) > _MANY else ""
    return ", ".join(names) + rest


def one_line(text: str) -> str:
    """Return a text on one line, with nothing in it that a terminal would act on."""
    return printable(" ".join(text.split()))


def name_of(item_id: str) -> str:
    """Return an id so that it stands out of a text: in quotes where it is more than a name."""
    if item_id and all(one.isalnum() or one in _PLAIN for one in item_id):
        return item_id
    return json.dumps(printable(item_id), ensure_ascii=False)
