"""What an agent program says of a turn means: pure, without a process or a clock.

Programs and versions differ in what is there, so every field is looked at before it is believed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hmz_mp_worker.backends.acp.permissions import Call
from hmz_mp_worker.backends.protocol import (
    Did,
    Event,
    Failed,
    Result,
    Spent,
    Text,
    Usage,
    as_count,
    encodable,
    failure_of_status,
    judge,
    status_in,
)

if TYPE_CHECKING:
    from hmz_mp_worker.backends.acp.permissions import Rules
    from hmz_mp_worker.backends.protocol import FailureKind

__all__ = ["TurnReader", "failure_of"]

_AUTH_REQUIRED = -32000
_NOT_BEGUN = ("", "pending")
_ENDED = ("completed", "failed")
_STOPS = {
    "refusal": "the model would not do it",
    "max_tokens": "the answer was cut off: the model had no tokens left",
    "max_turn_requests": "the turn took more requests to the model than the program allows",
    "cancelled": "the turn was cancelled",
}

# The protocol has no kinds of errors beside its own, so it is the service's words that count.
_KINDS: tuple[tuple[FailureKind, str], ...] = (
    ("limited", r"rate.?limit|too many requests|quota|usage limit|insufficient.?(funds|credit)"),
    (
        "unauthorised",
        r"authentication.?(error|required|failed)|unauthori[sz]ed"
        r"|(invalid|incorrect|missing|no)\W+(\w+\W+)?api.?key",
    ),
    (
        "overloaded",
        r"overloaded|internal server error|bad gateway|service unavailable|gateway time-?out"
        r"|econn|etimedout|enotfound|fetch failed|(cannot|unable to) connect|connection error"
        r"|api_error|socket hang up|premature close",
    ),
)
_STATUS = re.compile(r"\A\W*([45]\d\d)\b|\"(?:status|code)\"\s*:\s*([45]\d\d)\b")
_PREFIX = re.compile(r"\AInternal error:\s*", re.IGNORECASE)


class TurnReader:
    """Reads one turn: news in, events out.

    Its whole state: the message that is being written, and whether the next piece begins another;
    the tools that were used, which of them were asked about, and what was denied or done unasked;
    whether the tokens of each request are told; and what the session has cost, if that is known.
    """

    def __init__(self, model: str, rules: Rules, cost: float | None = None) -> None:
        self.cost = cost
        self._model = model
        self._rules = rules
        self._message = ""
        self._message_id: Any = None
        self._interrupted = False
        self._calls: dict[str, Call] = {}
        self._asked: set[str] = set()
        self._denials: list[str] = []
        self._unasked: list[str] = []
        self._counted = False

    # News.

    def take(self, update: dict[str, Any]) -> list[Event]:
        """Return what a piece of news means."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return [*self._piece(update), *self._used(_dict(update.get("_meta")).get("usage"))]
        if kind in ("tool_call", "tool_call_update"):
            return self._tool(update)
        return self._charged(update.get("cost")) if kind == "usage_update" else []

    def _piece(self, update: dict[str, Any]) -> list[Event]:
        text = _dict(update.get("content")).get("text")
        if not isinstance(text, str) or not text:
            return []
        text = encodable(text)
        id = update.get("messageId")  # noqa: A001  # the protocol's word
        if self._interrupted or id != self._message_id:
            self._message = ""
        self._interrupted = False
        self._message_id = id
        self._message += text
        return [Text(text)]

    def _tool(self, said: dict[str, Any]) -> list[Event]:
        """Note the use of a tool; it is told once it is known what it is."""
        id = str(said.get("toolCallId"))  # noqa: A001  # the protocol's word
        self._interrupted = self._interrupted or id not in self._calls
        before = self._calls.get(id, Call())
        call = self._calls[id] = before.updated(said)
        if call.status in _ENDED and before.status not in _ENDED and id not in self._asked:
            self._look_at(call)
        if before.status in _NOT_BEGUN and call.status not in _NOT_BEGUN:
            return [Did(encodable(call.words))]
        return []

    def _look_at(self, call: Call) -> None:
        """Note a change of a file that the rung does not permit, and that nobody was asked about.

        If it failed, that is how the program's own mode denies it.
        """
        if self._rules.forbid(call):
            noted = self._unasked if call.status == "completed" else self._denials
            noted.append(encodable(call.words))

    # Questions.

    def question(self, said: dict[str, Any]) -> tuple[bool, list[Event]]:
        """Return whether a tool may be used that the program asks about, and what that means."""
        id = str(said.get("toolCallId"))  # noqa: A001  # the protocol's word
        self._asked.add(id)
        events = self._tool({name: value for name, value in said.items() if name != "status"})
        call = self._calls[id]
        permitted = self._rules.permit(call.kind, call.paths)
        if not permitted and call.kind != "switch_mode":  # to leave a mode is no part of the work
            self.deny(call.words)
        return permitted, events

    def deny(self, words: str) -> None:
        """Note that something was not permitted."""
        self._denials.append(encodable(words))

    # Its end.

    def end(self, answer: dict[str, Any]) -> list[Event]:
        """Return how the turn has ended, by the answer to its prompt."""
        end = self._end(answer.get("stopReason"))
        if self._counted:
            return [end]
        meta = _dict(answer.get("_meta"))
        usage = answer.get("usage") or meta.get("usage")
        return [*(self._used(usage) if usage else _of_models(meta.get("quota"))), end]

    def _end(self, reason: Any) -> Result | Failed:
        error: Failed | None = None
        if reason != "end_turn" and not self._denials:
            why = _STOPS.get(str(reason), f"the turn stopped: {reason}")
            error = Failed("refused", why, answer=self._message)
        if self._unasked:
            what = ", ".join(dict.fromkeys(self._unasked))
            said = f"the program did what it is not permitted, and did not ask: {what}"
            error = Failed("denied", said, answer=self._message)
        return judge(error=error, status=None, denials=self._denials, answer=self._message)

    def _charged(self, cost: Any) -> list[Event]:
        """Return what was spent since the last time that the session's whole cost was told."""
        cost = _dict(cost)
        amount = cost.get("amount")
        if cost.get("currency") != "USD" or not isinstance(amount, (int, float)):
            return []
        before, self.cost = self.cost, float(amount)
        more = self.cost - before if before is not None else 0.0
        return [Spent((Usage(self._model, cost_usd=more),))] if more > 0 else []

    def _used(self, usage: Any) -> list[Event]:
        """Return what a request, or the whole turn, has used."""
        if not isinstance(usage, dict):
            return []
        read, written, total = (
            as_count(usage.get(f"{name}Tokens")) for name in ("input", "output", "total")
        )
        cached = as_count(usage.get("cachedReadTokens"))
        thought = as_count(usage.get("thoughtTokens"))
        others = cached + as_count(usage.get("cachedWriteTokens"))
        if total > read + written + thought or not total:
            read += others  # some count what came from a cache beside it, others in it
        if not read and not written:
            return []
        self._counted = True
        return [Spent((Usage(self._model, read, written + thought, cached),))]


def _of_models(quota: Any) -> list[Event]:
    """Return what a turn has used of each model, as Gemini CLI tells it."""
    listed = _dict(quota).get("model_usage")
    found = []
    for one in listed if isinstance(listed, list) else []:
        counts = _dict(_dict(one).get("token_count"))
        read, written = (as_count(counts.get(f"{name}_tokens")) for name in ("input", "output"))
        if read or written:
            found.append(Usage(encodable(str(one.get("model"))), read, written))
    return [Spent(tuple(found))] if found else []


def failure_of(code: int, message: str, data: Any, ways_in: str = "") -> Failed:
    """Return the failure that an error of the program's is."""
    reason = _reason(message, data)
    if code == _AUTH_REQUIRED:
        return Failed("unauthorised", encodable(f"{reason}: {ways_in}" if ways_in else reason))
    status = code if 400 <= code < 600 else _status(reason, data)
    if status is not None:
        return failure_of_status(status, reason)
    for kind, words in _KINDS:
        if re.search(words, f"{reason} {_text(data)}", re.IGNORECASE):
            return Failed(kind, reason)
    found = failure_of_status(None, reason)  # it knows what is too long
    return found if found.kind == "too_long" else Failed("refused", reason)


def _reason(message: str, data: Any) -> str:
    """Return what the program says of an error, or passes on of the service's words."""
    details = data if isinstance(data, str) else _dict(data).get("details")
    said = str(details or "") or _PREFIX.sub("", message) or message
    return encodable(said) or "it gave no reason"


def _status(reason: str, data: Any) -> int | None:
    for key in ("status", "statusCode", "code"):
        value = _dict(data).get(key)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    named = _STATUS.search(reason)
    return int(named[1] or named[2]) if named is not None else status_in(reason)


def _text(data: Any) -> str:
    return json.dumps(data) if isinstance(data, dict) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
