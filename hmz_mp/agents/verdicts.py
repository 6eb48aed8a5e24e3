"""What an answer says of its own item: that it was done, that it failed, or is to be looked at.

An answer that has a method ``turn_verdict`` decides by it how its turn has ended, for a run's
counts, rows and exit status; whoever asked gets the answer all the same. Imports nothing of ours
but records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hmz_mp.core.ambient import TurnRecord

__all__ = ["NEEDS_REVIEW", "judged", "needs_review"]

NEEDS_REVIEW = "needs_review"  # as the record's ``failure``, of a turn that is ok


def judged(record: TurnRecord, answer: Any) -> Literal["ok", "failed"]:
    """Return the state that an answer gives its turn, and note in the record what it says."""
    verdict = getattr(answer, "turn_verdict", None)
    if not callable(verdict):
        return "ok"
    status, words = verdict(record.item_id)
    if status == "ok":
        return "ok"
    record.error = " ".join(words.split())
    if status == NEEDS_REVIEW:
        record.failure = NEEDS_REVIEW
        return "ok"
    record.error_type = type(answer).__name__
    return "failed"


def needs_review(record: TurnRecord) -> bool:
    """Whether a turn was answered, and the answer says that somebody has to look."""
    return record.state == "ok" and record.failure == NEEDS_REVIEW
