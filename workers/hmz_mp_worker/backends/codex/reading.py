"""What an app server says of a turn means: pure, without a process or a clock.

Versions differ in what is there, so every field is looked at before it is believed.
"""

from __future__ import annotations

from typing import Any

from hmz_mp_worker.backends.protocol import (
    Did,
    Event,
    Failed,
    FailureKind,
    Result,
    Spent,
    Text,
    Usage,
    as_count,
    failure_of_status,
    judge,
)

__all__ = ["TurnReader", "failure_of"]

_KINDS: dict[str, FailureKind] = {
    "contextWindowExceeded": "too_long",
    "usageLimitExceeded": "limited",
    "rateLimitExceeded": "limited",
    "sessionBudgetExceeded": "limited",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "flexUnavailable": "overloaded",
    "policyCapacityUnavailable": "overloaded",
    "unauthorized": "unauthorised",
    "tooManyDenials": "denied",
    "sandboxError": "died",
}  # the rest is refused
_LOST = ("stream disconnected", "stream closed", "error sending request", "timeout waiting")
_ENDS = {"complete": "", "blocked": "the agent is stuck", "paused": "it was paused"}
_WORDS = 120


class TurnReader:
    """Reads one turn: messages in, events out, the last of them its end.

    Its whole state: the turn's id; the last text that the agent said; what it was denied; the
    commands that run; the totals of tokens; how often the connection was lost; a failure that is
    certain before the turn's end; and, with an objective, how that stands.
    """

    def __init__(self, model: str, total: dict[str, int] | None, *, pursue: bool = False) -> None:
        self.turn = ""
        self.total = total
        self.failure: Failed | None = None
        self.running: set[str] = set()
        self.over = False
        self.goal = "active" if pursue else ""
        self._model = model
        self._answer = ""
        self._denials: list[str] = []
        self._lost = 0

    def take(self, message: dict[str, Any]) -> list[Event]:
        """Return what a message means."""
        reader = _READERS.get(str(message.get("method")))
        params = message.get("params")
        if reader is None or not isinstance(params, dict):
            return []
        turn = params.get("turnId")
        if self.turn and isinstance(turn, str) and turn != self.turn and not self.goal:
            return []  # of another turn, before or after
        return reader(self, params)

    def _started(self, params: dict[str, Any]) -> list[Event]:
        turn = params.get("turn")
        if (
            isinstance(turn, dict)
            and isinstance(turn.get("id"), str)
            and (self.goal or not self.turn)
        ):
            self.turn = turn["id"]
        return []

    def _delta(self, params: dict[str, Any]) -> list[Event]:
        return [Text(str(params.get("delta", "")))]

    def _item_started(self, params: dict[str, Any]) -> list[Event]:
        item = params.get("item")
        if not isinstance(item, dict):
            return []
        if item.get("type") == "commandExecution":
            self.running.add(str(item.get("id")))
        words = _words(item)
        return [Did(words)] if words else []

    def _item_completed(self, params: dict[str, Any]) -> list[Event]:
        item = params.get("item")
        if not isinstance(item, dict):
            return []
        self.running.discard(str(item.get("id")))
        if item.get("type") == "agentMessage":
            self._answer = str(item.get("text", ""))
        if item.get("status") == "declined":
            self._denials.append(_words(item) or str(item.get("type")))
        return []

    def _asked(self, _: dict[str, Any]) -> list[Event]:
        self._denials.append("more permissions")
        return []

    def _used(self, params: dict[str, Any]) -> list[Event]:
        usage = params.get("tokenUsage")
        if not isinstance(usage, dict):
            return []
        total, last = _counts(usage.get("total")), _counts(usage.get("last"))
        before = self.total
        self.total = total
        if params.get("turnId") != self.turn:
            return []  # said again of an earlier turn, when a thread is resumed
        if before is None:
            before = {name: total[name] - last[name] for name in total}
        spent = {name: max(0, total[name] - before[name]) for name in total}
        if not spent["inputTokens"] and not spent["outputTokens"]:
            return []
        cached = spent["cachedInputTokens"]
        return [Spent((Usage(self._model, spent["inputTokens"], spent["outputTokens"], cached),))]

    def _error(self, params: dict[str, Any]) -> list[Event]:
        failed = failure_of(params.get("error"))
        if params.get("willRetry"):
            lost = any(one in failed.reason.lower() for one in _LOST)
            self._lost += lost
            if lost and self._lost == 1:
                return []  # a lost connection says nothing of the service: it has one more try
        self.failure = self.failure or failed
        return []

    def _goal(self, params: dict[str, Any]) -> list[Event]:
        goal = params.get("goal")
        if self.goal and isinstance(goal, dict):
            self.goal = str(goal.get("status"))
        return []

    def _completed(self, params: dict[str, Any]) -> list[Event]:
        turn = params.get("turn")
        turn = turn if isinstance(turn, dict) else {}
        if self.turn and turn.get("id") != self.turn:
            return []
        error = self.failure
        if turn.get("status") == "failed":
            error = error or failure_of(turn.get("error"))
        elif turn.get("status") != "completed":
            error = error or Failed("refused", f"the turn was {turn.get('status')}")
        if error is None and self.goal == "active":
            return []  # it goes on by itself
        self.over = True
        return [self._end(error or self._stuck())]

    def _stuck(self) -> Failed | None:
        if not self.goal or self.goal == "complete":
            return None
        if self.goal in ("usageLimited", "budgetLimited"):
            return Failed("limited", "what may be used for the objective is used up")
        why = _ENDS.get(self.goal, self.goal)
        return Failed("refused", f"the objective was not reached: {why}", answer=self._answer)

    def _end(self, error: Failed | None) -> Result | Failed:
        return judge(error=error, status=None, denials=self._denials, answer=self._answer)


_READERS = {
    "turn/started": TurnReader._started,
    "turn/completed": TurnReader._completed,
    "item/agentMessage/delta": TurnReader._delta,
    "item/started": TurnReader._item_started,
    "item/completed": TurnReader._item_completed,
    "item/permissions/requestApproval": TurnReader._asked,
    "thread/tokenUsage/updated": TurnReader._used,
    "thread/goal/updated": TurnReader._goal,
    "error": TurnReader._error,
}


def _counts(reported: Any) -> dict[str, int]:
    reported = reported if isinstance(reported, dict) else {}
    names = ("inputTokens", "outputTokens", "cachedInputTokens")
    return {name: as_count(reported.get(name)) for name in names}


def _words(item: dict[str, Any]) -> str:
    """Return what an item is, on one line; empty for what is no use of a tool."""
    kind = item.get("type")
    if kind == "commandExecution":
        words = f"command {item.get('command')}"
    elif kind == "fileChange":
        changes = item.get("changes")
        paths = (
            [str(one.get("path")) for one in changes if isinstance(one, dict)]
            if isinstance(changes, list)
            else []
        )
        words = f"edit {', '.join(paths)}"
    elif kind == "mcpToolCall":
        words = f"{item.get('server')} {item.get('tool')}"
    elif kind == "webSearch":
        words = f"search {item.get('query')}"
    else:
        return ""
    return " ".join(words.split())[:_WORDS]


def failure_of(error: Any) -> Failed:
    """Return the failure that an error of the server's is."""
    error = error if isinstance(error, dict) else {}
    details, message = error.get("additionalDetails"), error.get("message")
    reason = str(details or message or "it gave no reason")
    info = error.get("codexErrorInfo")
    if isinstance(info, dict):
        statuses = [one.get("httpStatusCode") for one in info.values() if isinstance(one, dict)]
        status = statuses[0] if statuses and isinstance(statuses[0], int) else None
        return failure_of_status(status, reason)
    return Failed(_KINDS.get(str(info), "refused"), reason)
