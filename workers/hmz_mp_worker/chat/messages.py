"""What is said to a chat model and by it, in no service's own words; and how to reach the model.

Plain values that can be pickled and written as JSON. Imports msgspec, and usage and failures from
``backends.protocol``.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from hmz_mp_worker.backends.protocol import Failed, Usage

__all__ = [
    "STALL",
    "Call",
    "CallResult",
    "Choice",
    "Message",
    "Reader",
    "Reply",
    "Request",
    "Results",
    "Service",
    "Settings",
    "Tool",
    "User",
    "is_closed",
]

STALL = 900.0  # seconds without a byte of an answer

Service = Literal["openai", "anthropic"]
Choice = Literal["auto", "required", "none"]


class Settings(msgspec.Struct, frozen=True):
    """A model and how to reach it.

    ``base_url`` is another server's than the service's own. ``key_env`` names the variable of the
    environment that has the key, which itself is never a setting; empty, it is the service's usual
    one, or no key at all with a ``base_url``. ``max_tokens`` of 0 and a ``temperature`` of ``None``
    are what the service takes by itself. ``stall`` is in seconds.
    """

    service: Service
    model: str
    effort: str = ""
    system: str = ""
    base_url: str = ""
    key_env: str = ""
    max_tokens: int = 0
    temperature: float | None = None
    stall: float = STALL


class Tool(msgspec.Struct, frozen=True):
    """A tool that the model may call; ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    """A call that the model asks for. ``arguments`` is JSON as the model wrote it: maybe none."""

    id: str
    name: str
    arguments: str


class CallResult(msgspec.Struct, frozen=True):
    """What came of a call."""

    id: str
    text: str
    is_error: bool = False


class User(msgspec.Struct, frozen=True, tag="user"):
    """What the model is told."""

    text: str


class Results(msgspec.Struct, frozen=True, tag="results"):
    """What came of the calls of the reply before, one result for each."""

    results: tuple[CallResult, ...]


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """What the model said, which is also a message to go on from.

    ``finish`` is why it ended, in the service's word, or empty if its end never came.
    ``failure`` is ``None`` for a reply that counts: one that came whole, and was not refused.
    ``usage`` is what it cost, also of one that failed, as far as the service told. ``own`` is the
    message as the service wants it back.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""
    usage: Usage | None = None
    failure: Failed | None = None
    own: Any = None


Message = User | Reply | Results


class Request(msgspec.Struct, frozen=True):
    """What one reply is asked for.

    ``schema`` is a JSON schema as text, or empty. ``goes_on`` says that these messages are likely
    to be sent again, with more, so that a service that is to be told what to cache caches them.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    schema: str = ""
    choice: Choice = "auto"
    goes_on: bool = False


class Reader(Protocol):
    """Reads one reply: what the SDK streams in, pieces of text out, at the end the reply."""

    def take(self, event: Any) -> str:
        """Return the text that an event brings, which is mostly empty."""

    def reply(self) -> Reply:
        """Return what was heard so far as a reply. It has failed if its end has not come."""


def is_closed(schema: dict[str, Any]) -> bool:
    """Whether a JSON schema leaves nothing open: no object of any names, no value of any type.

    Services hold answers to such schemas; what others they take differs.
    """
    if not all(map(is_closed, schema.get("$defs", {}).values())):
        return False
    if any(name in schema for name in ("$ref", "enum", "const")):
        return True
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return all(map(is_closed, schema[name]))
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        return closed and all(map(is_closed, schema.get("properties", {}).values()))
    if schema.get("type") == "array":
        return is_closed(schema.get("items") or {})
    return isinstance(schema.get("type"), str)
