"""`Finding`: what is known of one item afterwards, the same few fields whatever was asked.

Owns how an answer of any kind becomes one, and that it is about the item that was asked for.
Imported by ``fanin``; it knows nothing of how answers are got.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from hmz_mp.dispatch.rendering import NotJson, cut, text_of

__all__ = [
    "CAP",
    "BadFinding",
    "Confidence",
    "Failure",
    "Finding",
    "Status",
    "finding_of",
    "is_about",
]

Status = Literal["ok", "failed", "needs_review"]
Confidence = Literal["high", "low"]
STATUSES: tuple[Status, ...] = get_args(Status)
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)

CAP = 500  # characters: one or two sentences


class Finding(msgspec.Struct):
    """What was found of one item: small, and the same for all.

    ``finding`` is one or two sentences, and ``evidence_ref`` a pointer to the evidence (a path and
    a line, an address, an item of a run), not the evidence; both are cut in a report if they are
    long. A subclass may have further fields, numbers for instance, which `Report.outliers` takes.
    """

    item_id: str
    status: Status
    finding: str
    evidence_ref: str
    confidence: Confidence

    def turn_verdict(self, item_id: str) -> tuple[Status, str]:
        """Return how the turn of a run has ended that was asked about an item, and why."""
        if not is_about(self, item_id):
            return "failed", f"the finding is about {self.item_id!r}"
        return self.status, self.finding


class Failure(Finding):
    """The finding of an item that failed; ``cause`` is the exception, if there was one."""

    cause: BaseException | None = None


class BadFinding(ValueError):
    """Raised for an answer that says it is a finding and is none of the item asked about."""


def finding_of(item_id: str, value: Any, *, cap: int = CAP, evidence: str = "") -> Finding:
    """Return the finding that an answer about an item is, its texts cut at ``cap`` characters.

    ``evidence`` is its pointer where it has none of its own. Raises `BadFinding` when it is about
    another item, or has words in its status or confidence that are not known.
    """
    if isinstance(value, Finding):
        finding = msgspec.structs.replace(value)
    elif isinstance(value, Mapping) and _is_finding(value):
        finding = _of_fields(item_id, value)
    else:
        finding = Finding(item_id, "ok", _words(value), "", "high")
    _check(finding, item_id)
    finding.item_id = item_id
    finding.finding = cut(finding.finding, cap)
    finding.evidence_ref = cut(finding.evidence_ref or evidence, cap)
    return finding


def _is_finding(value: Mapping[Any, Any]) -> bool:
    return "finding" in value or value.get("status") in STATUSES


def _of_fields(item_id: str, fields: Mapping[Any, Any]) -> Finding:
    text = fields.get("finding")
    if text is None:
        rest = {key: fields[key] for key in fields if key not in Finding.__struct_fields__}
        text = rest or fields["status"]
    return Finding(
        item_id=fields.get("item_id", item_id),
        status=fields.get("status", "ok"),
        finding=_words(text),
        evidence_ref=_words(fields.get("evidence_ref") or ""),
        confidence=fields.get("confidence", "high"),
    )


def _words(value: Any) -> str:
    try:
        return text_of(value)
    except NotJson:
        return repr(value)


def _check(finding: Finding, item_id: str) -> None:
    if not is_about(finding, item_id):
        about = finding.item_id
        raise BadFinding(f"the finding is about {about!r}, and {item_id!r} was asked about")
    if finding.status not in STATUSES:
        raise BadFinding(f"its status is {finding.status!r}, none of {', '.join(STATUSES)}")
    if finding.confidence not in CONFIDENCES:
        raise BadFinding(f"its confidence is {finding.confidence!r}, neither high nor low")
    for name in ("finding", "evidence_ref"):
        if not isinstance(getattr(finding, name), str):
            raise BadFinding(f"its {name} is a {type(getattr(finding, name)).__name__}, no text")


def is_about(finding: Finding, item_id: str) -> bool:
    """Whether a finding is about an item; models like to write ``./a.py`` for ``a.py``."""
    about: object = finding.item_id  # nobody checks a Struct's fields when it is made
    if about == item_id:
        return True
    if not isinstance(about, str) or not about.strip():
        return False
    return os.path.normpath(about.strip()) == os.path.normpath(item_id)
