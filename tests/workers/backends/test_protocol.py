from __future__ import annotations

import pickle
from typing import Any

import pytest

from hmz_mp_worker.backends.protocol import (
    FAILURES,
    AgentFailed,
    Did,
    Event,
    Failed,
    Opened,
    Result,
    Spent,
    Text,
    Usage,
    failure_of_status,
    judge,
    read_agent_event,
    status_in,
    write_agent_event,
)

FINE: dict[str, Any] = {"error": None, "status": None, "denials": [], "answer": "yes"}


def test_success() -> None:
    assert judge(**FINE) == Result("yes")
    assert judge(**{**FINE, "status": 0, "answer": ""}) == Result("")


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"error": Failed("limited", "slow down")}, "limited", "slow down"),
        ({"denials": ["Edit", "Bash", "Edit"]}, "denied", "not permitted to use Edit, Bash"),
        ({"status": 3}, "died", "exited with status 3"),
        ({"status": -9}, "died", "exited with status -9"),
        ({"answer": None}, "schema", "no value of the schema"),
    ],
)
def test_any_one_thing_is_a_failure(change: dict[str, Any], kind: str, says: str) -> None:
    ended = judge(**{**FINE, **change})
    assert isinstance(ended, Failed)
    assert ended.kind == kind
    assert says in ended.reason


def test_what_was_answered_all_the_same_is_kept() -> None:
    ended = judge(**{**FINE, "denials": ["Edit"], "detail": "tail"})
    assert isinstance(ended, Failed)
    assert (ended.answer, ended.detail) == ("yes", "tail")


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "bad tool schema", "refused"),
        (404, "no such model", "refused"),
        (400, "prompt is too long: 250000 tokens > 200000 maximum", "too_long"),
        (400, "This model's maximum context length is 8192 tokens", "too_long"),
        (400, "error code context_length_exceeded", "too_long"),
        (413, "the input is too long", "too_long"),
        (401, "who?", "unauthorised"),
        (403, "not you", "unauthorised"),
        (429, "too many tokens per minute", "limited"),
        (408, "timeout", "overloaded"),
        (500, "oops", "overloaded"),
        (503, "oops", "overloaded"),
        (529, "busy", "overloaded"),
        (None, "cannot connect", "overloaded"),
        (None, "your input exceeds the context window of this model", "too_long"),
    ],
)
def test_what_a_status_means(status: int | None, reason: str, kind: str) -> None:
    failed = failure_of_status(status, reason, retry_after=2.5)
    assert (failed.kind, failed.reason, failed.retry_after) == (kind, reason, 2.5)
    assert failed.kind in FAILURES


@pytest.mark.parametrize(
    "event",
    [
        Opened("an id"),
        Text("some \N{SNOWMAN}"),
        Did("Bash ls"),
        Spent((Usage("m", 3, 2, 1, 0.5),)),
        Result("done"),
        Failed("died", "gone", 1.5, -9, "half", "tail"),
    ],
)
def test_events_travel(event: Event) -> None:
    assert read_agent_event(write_agent_event(event)) == event


def test_the_error_says_its_kind_and_survives_pickling() -> None:
    error = AgentFailed("limited", "429\n slow  down", 2.0, 1, "half", "tail")
    assert str(error) == "limited: 429 slow down"
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("unexpected status 401 Unauthorized", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", 429),
        ("status code 503", 503),
        ("no answer in 200 seconds", None),
    ],
)
def test_a_status_in_a_message(text: str, status: int | None) -> None:
    assert status_in(text) == status
