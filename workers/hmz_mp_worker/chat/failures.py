"""What the SDKs raise, as the one taxonomy of failures.

Knows both SDKs' exceptions by their names, so that neither has to be imported.
"""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from hmz_mp_worker.backends.protocol import Failed, failure_of_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hmz_mp_worker.chat.clients import Client
    from hmz_mp_worker.chat.messages import Settings

__all__ = ["failed_by", "was_closed"]

# The statuses that errors in the middle of a stream would have had before its beginning.
_STATUSES = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}
_TOO_LONG = {"context_length_exceeded", "exceed_context_size_error", "request_too_large"}
_LONGEST = 2000  # characters of what a service says


def failed_by(error: Exception, settings: Settings, client: Client | None) -> Failed:
    """Return the failure that an exception means, with what the service said and without the key.

    Whatever it is, it is a failure of this turn and not of those that run beside it.
    """
    names = _names(error)
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    if isinstance(status, int) or body is not None:
        failed = _of_service(error, status, body)
    elif "ConnectTimeout" in names or "PoolTimeout" in names:
        failed = Failed("overloaded", "it did not accept a connection in time")
    elif names & {"TimeoutException", "APITimeoutError"}:
        reason = f"nothing was heard of the service for {settings.stall:g} s"
        failed = Failed("stalled", reason)
    elif names & {"TransportError", "APIConnectionError"}:
        failed = Failed("overloaded", _connection(error))
    elif isinstance(error, ValueError):  # of a stream that is no JSON
        failed = Failed("died", f"the service's answer cannot be read: {error}")
    else:
        failed = Failed("died", f"{type(error).__name__}: {error}")
    key = client.key if client is not None else ""
    if key and key in failed.reason:
        return Failed(failed.kind, failed.reason.replace(key, "(the key)"), failed.retry_after)
    return failed


def was_closed(error: Exception) -> bool:
    """Whether a connection, that there was, ended before any answer."""
    return bool(_names(error) & {"RemoteProtocolError", "ReadError", "WriteError"})


def _names(error: BaseException) -> set[str]:
    return {cls.__name__ for one in _chain(error) for cls in type(one).__mro__}


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _connection(error: BaseException) -> str:
    """Return why there was no connection, or why it ended, as the innermost exception says."""
    *_, last = _chain(error)
    return f"the connection to the service failed: {str(last).strip() or type(last).__name__}"


def _of_service(error: Exception, status: int | None, body: Any) -> Failed:
    told = _told(body)
    codes = {str(told.get(name)) for name in ("code", "type")}
    if status is None or status < 400:  # it came in the middle of a stream
        code = told.get("code")
        named = (_STATUSES[one] for one in codes if one in _STATUSES)
        status = code if isinstance(code, int) and code >= 400 else next(named, 500)
    message = told.get("message")
    reason = message if isinstance(message, str) and message.strip() else str(error)
    reason = " ".join(reason.split())[:_LONGEST]
    if codes & _TOO_LONG:
        return Failed("too_long", reason)
    headers = getattr(getattr(error, "response", None), "headers", {})
    return failure_of_status(status, reason, retry_after=_retry_after(headers))


def _told(body: Any) -> dict[str, Any]:
    """Return the part of an error's body that has a message: it may be the whole, or inside."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return {}
    inner = body.get("error") if isinstance(body, dict) else None
    if isinstance(inner, dict):
        return inner
    return body if isinstance(body, dict) else {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds a service wants to be left alone, if it says so."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _until(text)
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _until(date: str) -> float:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError):
        return -1.0
