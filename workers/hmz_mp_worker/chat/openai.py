"""How OpenAI's Chat Completions, and whatever is compatible with them, are spoken to.

Chat Completions and not Responses: that is what local servers have in common. Pure but for
`begin`; imports no SDK.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hmz_mp_worker.backends.protocol import Failed, Usage, as_count, encodable
from hmz_mp_worker.chat.messages import (
    Call,
    Reader,
    Reply,
    Request,
    Results,
    Settings,
    User,
    is_closed,
)

if TYPE_CHECKING:
    from hmz_mp_worker.chat.clients import Client

__all__ = ["begin", "parameters", "reader"]

_CUT = Failed("overloaded", "the answer was cut off: its stream ended before it did")


def parameters(settings: Settings, request: Request) -> dict[str, Any]:
    """Return the arguments of the SDK's call."""
    found: dict[str, Any] = {
        "model": settings.model,
        "messages": _messages(settings, request),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if settings.effort:
        found["reasoning_effort"] = settings.effort
    if settings.max_tokens:
        found["max_completion_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        found["temperature"] = settings.temperature
    if request.tools:
        found["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        if request.choice != "auto":
            found["tool_choice"] = request.choice
    if request.schema:
        schema = json.loads(request.schema)
        wanted = {"name": "answer", "schema": schema, "strict": is_closed(schema)}
        found["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return found


def _messages(settings: Settings, request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if settings.system:
        found.append({"role": "system", "content": encodable(settings.system)})
    for message in request.messages:
        if isinstance(message, User):
            found.append({"role": "user", "content": encodable(message.text)})
        elif isinstance(message, Results):
            found += [
                {"role": "tool", "tool_call_id": one.id, "content": encodable(one.text)}
                for one in message.results
            ]
        else:
            found.append(message.own)
    return found


async def begin(client: Client, parameters: dict[str, Any]) -> Any:
    """Return the SDK's stream of events."""
    return await client.sdk.chat.completions.create(**parameters)


def reader(settings: Settings) -> Reader:
    """Return what reads that stream."""
    return _Reader(settings.model)


class _Reader:
    """Its state is what was heard. Servers leave fields out that the SDK says are there."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish = ""
        self._usage: Usage | None = None

    def take(self, event: Any) -> str:
        """Return the text that an event brings."""
        if getattr(event, "usage", None) is not None:
            self._usage = _usage(self._model, event.usage)
        text = ""
        for choice in getattr(event, "choices", None) or []:
            self._finish = getattr(choice, "finish_reason", None) or self._finish
            delta = getattr(choice, "delta", None)
            text += getattr(delta, "content", None) or ""
            self._refusals.append(getattr(delta, "refusal", None) or "")
            for call in getattr(delta, "tool_calls", None) or []:
                self._take_call(call)
        self._texts.append(text)
        return text

    def _take_call(self, piece: Any) -> None:
        number = getattr(piece, "index", None)
        at = number if isinstance(number, int) else len(self._calls)
        call = self._calls.setdefault(at, {"id": "", "name": "", "arguments": ""})
        call["id"] = getattr(piece, "id", None) or call["id"]
        function = getattr(piece, "function", None)
        call["name"] = getattr(function, "name", None) or call["name"]
        call["arguments"] += getattr(function, "arguments", None) or ""

    def reply(self) -> Reply:
        """Return what was heard so far as a reply."""
        text = "".join(self._texts)
        calls = tuple(
            Call(call["id"] or f"call_{at}", call["name"], call["arguments"])
            for at, call in sorted(self._calls.items())
        )
        own: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text}
        if calls:
            own["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
        return Reply(text, calls, self._finish, self._usage, self._failure(), own)

    def _failure(self) -> Failed | None:
        refusal = "".join(self._refusals)
        if not self._finish:
            return _CUT
        if refusal:
            return Failed("refused", " ".join(refusal.split()))
        if self._finish == "length":
            reason = "the answer was cut off at the most tokens it may have (finish_reason length)"
            return Failed("refused", reason)
        if self._finish == "content_filter":
            reason = "the service's filter withheld the answer (finish_reason content_filter)"
            return Failed("refused", reason)
        return None


def _usage(model: str, told: Any) -> Usage:
    details = getattr(told, "prompt_tokens_details", None)
    return Usage(
        model,
        as_count(getattr(told, "prompt_tokens", 0)),
        as_count(getattr(told, "completion_tokens", 0)),
        as_count(getattr(details, "cached_tokens", 0)),
    )
