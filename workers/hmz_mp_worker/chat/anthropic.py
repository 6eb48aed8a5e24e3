"""How Anthropic's Messages API, and whatever is compatible with it, is spoken to.

Pure but for `begin`; imports no SDK. Events are read here and not by the SDK's own accumulator,
which raises where a tool's arguments are no JSON.
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

__all__ = ["MAX_TOKENS", "begin", "parameters", "reader"]

MAX_TOKENS = 32_000  # the API wants a number; all of today's models write so many

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_CUT = Failed("overloaded", "the answer was cut off: its stream ended before it did")


def parameters(settings: Settings, request: Request) -> dict[str, Any]:
    """Return the arguments of the SDK's call."""
    found: dict[str, Any] = {
        "model": settings.model,
        "messages": [_message(one) for one in request.messages if not _is_empty(one)],
        "max_tokens": settings.max_tokens or MAX_TOKENS,
        "stream": True,
        "tools": [
            {"name": one.name, "description": one.description, "input_schema": one.parameters}
            for one in request.tools
        ],
        "extra_body": _extra(settings, request),
    }
    if request.tools and request.choice != "auto":
        found["tool_choice"] = {"type": _CHOICES[request.choice]}
    schema = json.loads(request.schema) if request.schema else None
    found["system"] = _system(settings, request, schema)
    config: dict[str, Any] = {"effort": settings.effort} if settings.effort else {}
    if schema is not None and is_closed(schema):
        config["format"] = {"type": "json_schema", "schema": schema}
    found["output_config"] = config
    return {name: value for name, value in found.items() if value or name == "messages"}


def _extra(settings: Settings, request: Request) -> dict[str, Any]:
    """Return what is no argument of every version of the SDK's: newer models take no temperature.

    Other servers than the service's own may not know of caches.
    """
    extra: dict[str, Any] = {}
    if settings.temperature is not None:
        extra["temperature"] = settings.temperature
    if request.goes_on and not settings.base_url:
        extra["cache_control"] = {"type": "ephemeral"}
    return extra


def _system(settings: Settings, request: Request, schema: Any) -> str:
    """Return what the model is told before everything, a schema that is not held to included.

    The service's means take none that leaves something open, and other servers may have no means.
    """
    parts = [encodable(settings.system)]
    if schema is not None and (settings.base_url or not is_closed(schema)):
        parts.append(
            f"Answer with JSON that fits this JSON schema, and with nothing else: {request.schema}"
        )
    return "\n\n".join(filter(None, parts))


def _is_empty(message: Any) -> bool:
    """Whether it is a reply without a word, which the API would not take back."""
    return isinstance(message, Reply) and not message.own


def _message(message: User | Reply | Results) -> dict[str, Any]:
    if isinstance(message, User):
        return {"role": "user", "content": encodable(message.text)}
    if isinstance(message, Reply):
        return {"role": "assistant", "content": message.own}
    results = [
        {
            "type": "tool_result",
            "tool_use_id": one.id,
            "content": encodable(one.text),
            "is_error": one.is_error,
        }
        for one in message.results
    ]
    return {"role": "user", "content": results}


async def begin(client: Client, parameters: dict[str, Any]) -> Any:
    """Return the SDK's stream of events."""
    config = parameters.get("output_config", {})
    if "format" in config:
        # The SDK knows what the service takes of JSON Schema, and makes hints of the rest.
        schema = client.module.transform_schema(config["format"]["schema"])
        wanted = {**config["format"], "schema": schema}
        parameters = {**parameters, "output_config": {**config, "format": wanted}}
    return await client.sdk.messages.create(**parameters)


def reader(settings: Settings) -> Reader:
    """Return what reads that stream."""
    return _Reader(settings.model)


class _Reader:
    """Its state is what was heard: blocks, of which one is being written, the end, the usage."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: list[dict[str, Any]] = []
        self._written = ""  # of the last block's arguments
        self._finish = ""
        self._why = ""
        self._ended = False
        self._counts: dict[str, int] = {}

    def take(self, event: Any) -> str:
        """Return the text that an event brings."""
        kind = getattr(event, "type", None)
        if kind == "content_block_delta":
            return self._delta(event.delta)
        if kind == "content_block_start":
            self._end_block()
            self._blocks.append(event.content_block.to_dict())
            return self._text_of(self._blocks[-1])
        if kind == "message_start":
            self._count(event.message.usage)
        elif kind == "message_delta":
            self._count(event.usage)
            self._finish = event.delta.stop_reason or self._finish
            details = getattr(event.delta, "stop_details", None)
            self._why = getattr(details, "explanation", None) or self._why
        elif kind == "message_stop":
            self._end_block()
            self._ended = True
        return ""

    def _delta(self, delta: Any) -> str:
        block = self._blocks[-1] if self._blocks else {}
        if delta.type == "text_delta":
            block["text"] = block.get("text", "") + delta.text
            return str(delta.text)
        if delta.type == "input_json_delta":
            self._written += delta.partial_json
        elif delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta.thinking
        elif delta.type == "signature_delta":
            block["signature"] = delta.signature
        return ""

    def _text_of(self, block: dict[str, Any]) -> str:
        return str(block.get("text", "")) if block.get("type") == "text" else ""

    def _end_block(self) -> None:
        written, self._written = self._written, ""
        block = self._blocks[-1] if self._blocks else {}
        if block.get("type") == "tool_use" and "written" not in block:
            block["written"] = written or json.dumps(block.get("input") or {})
            block["input"] = _object(block["written"])

    def _count(self, usage: Any) -> None:
        """Take note of counts, each of which is of the whole message so far."""
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            count = getattr(usage, name, None)
            if count is not None:
                self._counts[name] = as_count(count)

    def reply(self) -> Reply:
        """Return what was heard so far as a reply."""
        self._end_block()
        text = "".join(map(self._text_of, self._blocks))
        calls = tuple(
            Call(block["id"], block["name"], block["written"])
            for block in self._blocks
            if block.get("type") == "tool_use"
        )
        own = [
            {name: value for name, value in block.items() if name != "written"}
            for block in self._blocks
            if block.get("type") != "text" or block.get("text")
        ]
        return Reply(text, calls, self._finish, self._usage(), self._failure(), own)

    def _usage(self) -> Usage | None:
        if not self._counts:
            return None
        cached = self._counts.get("cache_read_input_tokens", 0)
        read = self._counts.get("input_tokens", 0) + cached
        read += self._counts.get("cache_creation_input_tokens", 0)
        return Usage(self._model, read, self._counts.get("output_tokens", 0), cached)

    def _failure(self) -> Failed | None:
        if not self._ended:
            return _CUT
        if self._finish == "max_tokens":
            reason = "the answer was cut off at the most tokens it may have (max_tokens)"
            return Failed("refused", reason)
        if self._finish == "refusal":
            why = " ".join(self._why.split()) or "it did not say why"
            return Failed("refused", f"the model refused to answer: {why}")
        if self._finish == "model_context_window_exceeded":
            reason = "the answer did not fit the model's context any more"
            return Failed("too_long", reason)
        return None


def _object(written: str) -> dict[str, Any]:
    """Return arguments as an object, as the service wants them back: empty for what is none."""
    try:
        found = json.loads(written)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
