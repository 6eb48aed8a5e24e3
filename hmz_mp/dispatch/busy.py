"""Whether a tool's failure says that its service is too busy, for the breaker of a limit.

Pure. Imported by ``dispatch``.
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

from hmz_mp.core.breaker import Busy
from hmz_mp.errors import TurnFailed

__all__ = ["busy_of"]

_STATUSES = (429, 503, 529)  # too many requests, unavailable, Anthropic's "overloaded"
_STATUS = re.compile(r"\b(429|503|529)\b")


def busy_of(error: BaseException) -> Busy | None:
    """Return whether a failure is an HTTP status 429, 503 or 529, and what retry-after said.

    Looks at ``status_code``, ``status`` or ``code`` of the exception or its ``response``, at
    ``retry_after``, and at ``headers``; of an exception that could not be carried here whole, at
    its text.
    """
    if isinstance(error, TurnFailed):
        return Busy() if _STATUS.search(error.text) else None
    response = getattr(error, "response", None)
    for source in (error, response):
        for name in ("status_code", "status", "code"):
            if getattr(source, name, None) in _STATUSES:
                return Busy(_retry_after(error, response))
    return None


def _retry_after(error: BaseException, response: Any) -> float | None:
    said = getattr(error, "retry_after", None)
    for source in (error, response):
        get = getattr(getattr(source, "headers", None), "get", None)
        if said is None and callable(get):
            said = get("retry-after") or get("Retry-After")
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except (TypeError, ValueError):
        return _until(str(said))


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except ValueError:
        return None
