"""What the lines that Claude Code writes mean for a turn: pure, without a process or a clock.

A line is a JSON object with a ``type``. Versions differ in what else is there, so every field but
the type is optional and looked at before it is believed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp_worker.backends.protocol import (
    Did,
    Failed,
    Opened,
    Result,
    Spent,
    Text,
    Usage,
    as_count,
    failure_of_status,
    judge,
)

if TYPE_CHECKING:
    from hmz_mp_worker.backends.protocol import Event

__all__ = ["Line", "Totals", "TurnReader", "read_line"]

_NOT_FOUND = "No conversation found"
_WORDS = 120  # characters of what a tool is used on


class Line(msgspec.Struct):
    """One line, as far as anything here looks at it."""

    type: str
    subtype: Any = None
    session_id: Any = None
    uuid: Any = None
    is_replay: Any = msgspec.field(name="isReplay", default=None)
    parent_tool_use_id: Any = None
    message: msgspec.Raw = msgspec.Raw()
    event: msgspec.Raw = msgspec.Raw()
    structured_output: msgspec.Raw = msgspec.Raw()
    result: Any = None
    is_error: Any = None
    api_error_status: Any = None
    terminal_reason: Any = None
    stop_reason: Any = None
    errors: Any = None
    permission_denials: Any = None
    model_usage: Any = msgspec.field(name="modelUsage", default=None)
    model_usage_since_last_result: Any = None
    retry_delay_ms: Any = None
    error_status: Any = None
    error: Any = None
    tasks: Any = None
    rate_limit_info: Any = None


_decode = msgspec.json.Decoder(Line).decode
_decode_any = msgspec.json.Decoder().decode


def read_line(data: bytes) -> Line | None:
    """Return a line of the protocol, or ``None`` for something else."""
    try:
        return _decode(data)
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:
        pass
    try:
        # Half of a surrogate pair: JSON can hold it, msgspec's reader cannot.
        whole = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
        return _decode(whole)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


Totals = dict[str, Usage]


def _totals(reported: Any) -> Totals:
    """Return the usage by model as the program reports it."""
    found: Totals = {}
    if isinstance(reported, dict):
        for model, counts in reported.items():
            if isinstance(counts, dict):
                cached = as_count(counts.get("cacheReadInputTokens"))
                written = as_count(counts.get("cacheCreationInputTokens"))
                cost = counts.get("costUSD")
                found[model] = Usage(
                    model,
                    as_count(counts.get("inputTokens")) + cached + written,
                    as_count(counts.get("outputTokens")),
                    cached,
                    float(cost) if isinstance(cost, (int, float)) else 0.0,
                )
    return found


def _difference(now: Totals, before: Totals) -> tuple[Usage, ...]:
    found = []
    for model, usage in now.items():
        old = before.get(model, Usage(model))
        found.append(
            Usage(
                model,
                max(0, usage.input_tokens - old.input_tokens),
                max(0, usage.output_tokens - old.output_tokens),
                max(0, usage.cached_tokens - old.cached_tokens),
                max(0.0, usage.cost_usd - old.cost_usd),
            )
        )
    return tuple(usage for usage in found if usage.input_tokens or usage.output_tokens)


class TurnReader:
    """Reads one turn: lines in, events out, the last of them its end.

    Its whole state: the totals when the turn began; ids of messages that the program has not
    taken up yet; the conversation's id; a failure that is certain before the turn's end; and what
    is known of the program once the turn is over.
    """

    def __init__(self, totals: Totals, *, schema: bool, partial: bool) -> None:
        self.totals = totals
        self.conversation = ""
        self.unheard: set[str] = set()
        self.failure: Failed | None = None
        self.background = False  # whether something that it started still runs
        self.not_found = False  # the conversation that was to be resumed is not there
        self._schema = schema
        self._partial = partial

    def take(self, line: Line) -> list[Event]:
        """Return what a line means."""
        if isinstance(line.session_id, str) and line.type in ("system", "result"):
            opened = self._opened(line)
        else:
            opened = []
        reader = _READERS.get(line.type)
        return opened + (reader(self, line) if reader is not None else [])

    def _opened(self, line: Line) -> list[Event]:
        id_changed = line.session_id != self.conversation and line.subtype == "init"
        if not id_changed:
            return []
        self.conversation = line.session_id
        return [Opened(line.session_id)]

    def _system(self, line: Line) -> list[Event]:
        if line.subtype == "api_retry":
            self._note_retry(line)
        elif line.subtype == "background_tasks_changed":
            self.background = bool(line.tasks)
        return []

    def _note_retry(self, line: Line) -> None:
        """The service has refused; the program would wait and try again, which is not its to do.

        A connection that was lost says nothing of the service: there its one retry is let go on.
        """
        status = line.error_status
        if not isinstance(status, int):
            return
        delay = line.retry_delay_ms
        wait = delay / 1000 if status == 429 and isinstance(delay, (int, float)) else None
        said = f"the service answered with status {status}"
        reason = f"{said} ({line.error})" if line.error else said
        self.failure = failure_of_status(status, reason, retry_after=wait)

    def _user(self, line: Line) -> list[Event]:
        if line.is_replay and isinstance(line.uuid, str):
            self.unheard.discard(line.uuid)
        return []

    def _assistant(self, line: Line) -> list[Event]:
        if line.parent_tool_use_id is not None:  # a subagent's words are not the agent's
            return []
        message = _decode_any(line.message) if line.message else None
        content = message.get("content") if isinstance(message, dict) else None
        events: list[Event] = []
        for block in content if isinstance(content, list) else []:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                events.append(Did(_tool_words(block)))
            elif block.get("type") == "text" and not self._partial:
                events.append(Text(str(block.get("text", ""))))
        return events

    def _stream_event(self, line: Line) -> list[Event]:
        if line.parent_tool_use_id is not None or not line.event:
            return []
        event = _decode_any(line.event)
        delta = event.get("delta") if isinstance(event, dict) else None
        if isinstance(delta, dict) and delta.get("type") == "text_delta":
            return [Text(str(delta.get("text", "")))]
        return []

    def _limited(self, line: Line) -> list[Event]:
        info = line.rate_limit_info
        if isinstance(info, dict) and info.get("status") == "rejected":
            self.failure = Failed("limited", f"the quota is used up ({info.get('rateLimitType')})")
        return []

    def _result(self, line: Line) -> list[Event]:
        events: list[Event] = []
        now = _totals(line.model_usage)
        if isinstance(line.model_usage_since_last_result, dict):
            usage = _difference(_totals(line.model_usage_since_last_result), {})
        else:
            usage = _difference(now, self.totals)
        self.totals = now
        if usage:
            events.append(Spent(usage))
        if not self.unheard or line.is_error:
            events.append(self._end(line))
        return events

    def _end(self, line: Line) -> Result | Failed:
        answer = line.result if isinstance(line.result, str) else ""
        value: str | None = answer
        if self._schema:
            value = bytes(line.structured_output).decode() if line.structured_output else None
        denials = line.permission_denials if isinstance(line.permission_denials, list) else []
        return judge(
            error=self._error(line, answer),
            status=None,
            denials=[str(one.get("tool_name")) for one in denials if isinstance(one, dict)],
            answer=value,
        )

    def _error(self, line: Line, answer: str) -> Failed | None:
        if self.failure is not None:
            return self.failure
        errors = line.errors if isinstance(line.errors, list) else []
        said = answer or "; ".join(str(one) for one in errors) or str(line.subtype)
        if line.stop_reason == "refusal":
            return Failed("refused", said, answer=answer)
        if not line.is_error and not str(line.subtype).startswith("error"):
            return None
        if "structured_output" in str(line.subtype):
            return Failed("schema", said, answer=answer)
        if _NOT_FOUND in said:
            self.not_found = True
            return Failed("died", said)
        if line.terminal_reason == "prompt_too_long":
            return Failed("too_long", said)
        if line.terminal_reason == "api_error" or line.api_error_status is not None:
            status = line.api_error_status if isinstance(line.api_error_status, int) else None
            return failure_of_status(status, said)
        return Failed("refused", said, answer=answer)


_READERS = {
    "system": TurnReader._system,
    "user": TurnReader._user,
    "assistant": TurnReader._assistant,
    "stream_event": TurnReader._stream_event,
    "rate_limit_event": TurnReader._limited,
    "result": TurnReader._result,
}


def _tool_words(block: dict[str, Any]) -> str:
    """Return which tool is used, and on what, on one line."""
    given = block.get("input")
    about = ""
    if isinstance(given, dict):
        for name in ("file_path", "command", "pattern", "url", "query", "description", "prompt"):
            if isinstance(given.get(name), str):
                about = " ".join(given[name].split())
                break
    name = str(block.get("name"))
    return f"{name} {about}"[:_WORDS] if about else name
