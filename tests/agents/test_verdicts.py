from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from hmz_mp.agents.verdicts import judged, needs_review
from tests.runs.fakes import record_of


class Answer(NamedTuple):
    status: str
    words: str = "because\n  of that"

    def turn_verdict(self, item_id: str) -> tuple[str, str]:
        return self.status, f"{item_id}: {self.words}"


class WithField(NamedTuple):
    turn_verdict: str = "a field of the user's"


@pytest.mark.parametrize("answer", ["text", None, {"status": "failed"}, WithField(), Answer("ok")])
def test_answers_that_say_nothing_bad(answer: Any) -> None:
    record = record_of("a")
    assert judged(record, answer) == "ok"
    assert (record.error, record.failure) == (None, None)


def test_an_answer_that_says_failed() -> None:
    record = record_of("a")
    assert judged(record, Answer("failed")) == "failed"
    assert (record.error, record.error_type, record.failure) == (
        "a: because of that",
        "Answer",
        None,
    )


def test_an_answer_that_is_to_be_looked_at() -> None:
    record = record_of("a")
    record.state = judged(record, Answer("needs_review"))
    assert (record.state, record.error, record.failure) == (
        "ok",
        "a: because of that",
        "needs_review",
    )
    assert needs_review(record)
    record.state = "failed"
    assert not needs_review(record)
