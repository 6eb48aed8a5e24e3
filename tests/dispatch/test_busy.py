from __future__ import annotations

import email.utils
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hmz_mp.core.breaker import Busy
from hmz_mp.dispatch import busy_of
from hmz_mp.errors import TurnFailed


def failed(**attributes: Any) -> Exception:
    error = Exception("failed")
    error.__dict__.update(attributes)
    return error


@pytest.mark.parametrize(
    ("error", "busy"),
    [
        (failed(), None),
        (failed(status=500), None),
        (failed(status=429), Busy()),
        (failed(code=503), Busy()),
        (failed(status_code=529, retry_after=2), Busy(2.0)),
        (failed(status=429, retry_after="3.5"), Busy(3.5)),
        (failed(status=429, retry_after=-1), Busy(0.0)),
        (failed(status=429, retry_after="soon"), Busy(None)),
        (
            failed(response=SimpleNamespace(status_code=429, headers={"retry-after": "7"})),
            Busy(7.0),
        ),
        (failed(code=429, headers={"Retry-After": "7"}), Busy(7.0)),
        (TurnFailed("HTTPStatusError", "Client error '429 Too Many Requests'"), Busy()),
        (TurnFailed("HTTPStatusError", "Server error '500'"), None),
        (ValueError("429"), None),
    ],
)
def test_which_failures_are_a_busy_services(error: BaseException, busy: Busy | None) -> None:
    assert busy_of(error) == busy


def test_a_date() -> None:
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    found = busy_of(failed(status=429, headers={"retry-after": date}))
    assert found is not None
    assert found.retry_after is not None
    assert 25 < found.retry_after <= 30
