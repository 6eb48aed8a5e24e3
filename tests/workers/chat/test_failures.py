from __future__ import annotations

import time
from email.utils import formatdate
from types import SimpleNamespace as Some
from typing import Any

import pytest

from hmz_mp_worker.chat import Settings
from hmz_mp_worker.chat.clients import Client
from hmz_mp_worker.chat.failures import failed_by

SETTINGS = Settings("openai", "tiny", stall=3)


class APIStatusError(Exception):
    def __init__(self, status: int | None, body: Any, **headers: str) -> None:
        super().__init__("as it says itself")
        self.status_code = status
        self.body = body
        self.response = Some(headers={name.replace("_", "-"): at for name, at in headers.items()})


def told(error: Exception, key: str = "") -> Any:
    return failed_by(error, SETTINGS, Client(None, None, key))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"message": "no"}, "no"),
        ({"error": {"message": "no\nat  all"}}, "no at all"),
        ('{"error": {"message": "no"}}', "no"),
        ("<html>", "as it says itself"),
        ({"error": "no"}, "as it says itself"),
        ({"message": "  "}, "as it says itself"),
        (None, "as it says itself"),
        ([1], "as it says itself"),
        ({"message": "x" * 9999}, "x" * 2000),
    ],
)
def test_the_reason_is_what_the_service_said(body: Any, reason: str) -> None:
    failed = told(APIStatusError(404, body))
    assert (failed.kind, failed.reason) == ("refused", reason)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"type": "overloaded_error", "message": "no"}}, "overloaded"),
        ({"error": {"type": "rate_limit_error", "message": "no"}}, "limited"),
        ({"type": "server_error", "code": None, "message": "no"}, "overloaded"),
        ({"code": 429, "message": "no"}, "limited"),
        ({"code": "insufficient_quota", "message": "no"}, "limited"),
        ({"code": "context_length_exceeded", "message": "no"}, "too_long"),
        ({"type": "exceed_context_size_error", "code": 400, "message": "no"}, "too_long"),
        ({"type": "authentication_error", "message": "no"}, "unauthorised"),
        ("gibberish", "overloaded"),
    ],
)
@pytest.mark.parametrize("status", [None, 200])
def test_errors_in_the_middle_of_a_stream(status: int | None, body: Any, kind: str) -> None:
    assert told(APIStatusError(status, body)).kind == kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "0.5", "retry_after_ms": "250"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "inf"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    failed = told(APIStatusError(429, None, **headers))
    assert (failed.kind, failed.retry_after) == ("limited", seconds)


def test_how_long_to_wait_by_a_date() -> None:
    date = formatdate(time.time() + 60, usegmt=True)
    failed = told(APIStatusError(503, None, retry_after=date))
    assert 50 < failed.retry_after <= 60


class TransportError(Exception):
    pass


class TimeoutException(TransportError):  # its name there
    pass


class ConnectTimeout(TimeoutException):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (ConnectTimeout(), "overloaded", "in time"),
        (TimeoutException(), "stalled", "3 s"),
        (TransportError(), "overloaded", "TransportError"),
        (TransportError("no route"), "overloaded", "no route"),
        (ValueError("no JSON"), "died", "no JSON"),
        (KeyError("x"), "died", "KeyError"),
    ],
)
def test_what_the_network_does(error: Exception, kind: str, says: str) -> None:
    failed = told(error)
    assert failed.kind == kind
    assert says in failed.reason


def test_a_connection_fails_for_its_innermost_reason() -> None:
    error = TransportError("Connection error.")
    error.__cause__ = OSError(111, "refused")
    assert "refused" in told(error).reason


def test_the_key_is_in_no_failure() -> None:
    body = {"message": "who is sk-1?"}
    assert told(APIStatusError(401, body), "sk-1").reason == "who is (the key)?"
