"""What a backend says of an agent's turn: a stream of events that ends in one result or failure.

Owns the events, the kinds of failure, and the one rule by which a turn has succeeded. The
coordinator imports it too. It knows of no program and does no I/O.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

__all__ = [
    "AGENT",
    "FAILURES",
    "AgentFailed",
    "Ask",
    "Conversation",
    "Did",
    "Event",
    "Failed",
    "FailureKind",
    "Opened",
    "Result",
    "Spent",
    "Text",
    "Usage",
    "as_count",
    "encodable",
    "failure_of_status",
    "judge",
    "read_agent_event",
    "status_in",
    "write_agent_event",
]

AGENT = "agent"  # the kind under which a turn says its events to the coordinator

FailureKind = Literal[
    "refused",  # the service would not take the request, or the model would not do it
    "denied",  # the agent was not permitted something that it wanted to do
    "limited",  # too many requests, or a quota is used up
    "overloaded",  # the service failed, is overloaded, or cannot be reached
    "unauthorised",  # the service does not accept who asks
    "too_long",  # the conversation does not fit the model any more
    "schema",  # the answer did not fit the schema, also when asked again
    "stalled",  # nothing was heard of the agent for too long
    "died",  # the program could not be started, ended before its turn did, or spoke nonsense
]
FAILURES: tuple[FailureKind, ...] = get_args(FailureKind)


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """What one turn cost of one model.

    ``input_tokens`` are all that the model read, ``cached_tokens`` those of them that came from a
    cache. ``cost_usd`` is the program's own figure, 0 where it gives none.
    """

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The turn goes on in the conversation of this id, by which the program can resume it."""

    conversation: str


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A piece of what the agent says."""

    text: str


class Did(msgspec.Struct, frozen=True, tag="did"):
    """The agent used a tool; ``words`` say which, and on what, on one line."""

    words: str


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    """What was used since the last event of this kind."""

    usage: tuple[Usage, ...]


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The turn has succeeded. With a schema, ``answer`` is JSON."""

    answer: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The turn has failed. ``reason`` is what the program itself said, where it said anything.

    ``retry_after`` is in seconds, where the service named it. ``status`` is the program's exit
    status, if it has ended. ``answer`` is what the agent answered all the same; ``detail`` is the
    end of what the program wrote that is no part of its protocol.
    """

    kind: FailureKind
    reason: str
    retry_after: float | None = None
    status: int | None = None
    answer: str = ""
    detail: str = ""


Event = Opened | Text | Did | Spent | Result | Failed

write_agent_event = msgspec.msgpack.Encoder().encode
read_agent_event = msgspec.msgpack.Decoder(Event).decode


class Ask(msgspec.Struct, frozen=True):
    """One turn as a conversation is asked for it.

    ``schema`` is a JSON schema as text, or empty. With ``again`` it is about the last turn's
    answer, so the conversation goes on whether or not it is kept.
    """

    prompt: str
    schema: str = ""
    stream: bool = False
    pursue: bool = False
    again: bool = False


class Conversation(Protocol):
    """One conversation with an agent: turns that follow each other."""

    def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; the last event, and no other, is a `Result` or a `Failed`.

        Opens the conversation if it is not open, or resumes it. Leaving the generator early ends
        the program, and what it started.
        """

    def interject(self, text: str) -> None:
        """Say something to the turn that is running."""

    async def close(self) -> None:
        """End the program, politely first, and all that it started."""


class AgentFailed(Exception):
    """Raised when an agent's turn failed; ``kind`` is one of `FAILURES`.

    The other attributes are those of `Failed`.
    """

    def __init__(
        self,
        kind: FailureKind,
        reason: str,
        retry_after: float | None = None,
        status: int | None = None,
        answer: str = "",
        detail: str = "",
    ) -> None:
        # All of them: it is pickled.
        super().__init__(kind, reason, retry_after, status, answer, detail)
        self.kind = kind
        self.reason = reason
        self.retry_after = retry_after
        self.status = status
        self.answer = answer
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.kind}: {' '.join(self.reason.split())}"


def judge(
    *,
    error: Failed | None,
    status: int | None,
    denials: Sequence[str],
    answer: str | None,
    detail: str = "",
) -> Result | Failed:
    """Return how a turn has ended whose last event has come: the one rule for every agent.

    It has succeeded if the program reported no ``error``, has not exited with another ``status``
    than 0, was denied nothing, and gave an ``answer`` (with a schema, a value; ``None`` is none).
    """
    if error is not None:
        return error
    if denials:
        what = ", ".join(dict.fromkeys(denials))
        reason = f"the agent was not permitted to use {what}"
        return Failed("denied", reason, status=status, answer=answer or "", detail=detail)
    if status:
        reason = f"the program answered and exited with status {status}"
        return Failed("died", reason, status=status, answer=answer or "", detail=detail)
    if answer is None:
        return Failed("schema", "the answer has no value of the schema", detail=detail)
    return Result(answer)


_TOO_LONG = re.compile(
    r"(prompt|input) is too long|context[ _](length|window|size|limit)|maximum context"
    r"|too many tokens|out of room in the model's context",
    re.IGNORECASE,
)


def failure_of_status(
    status: int | None, reason: str, *, retry_after: float | None = None, detail: str = ""
) -> Failed:
    """Return the failure that an HTTP status of the service means; ``None`` is no answer at all."""
    kind: FailureKind
    if status in (400, 413, None) and _TOO_LONG.search(reason):
        kind = "too_long"
    elif status in (401, 403):
        kind = "unauthorised"
    elif status == 429:
        kind = "limited"
    elif status is None or status >= 500 or status == 408:
        kind = "overloaded"
    else:
        kind = "refused"
    return Failed(kind, reason, retry_after=retry_after, detail=detail)


def status_in(text: str) -> int | None:
    """Return the HTTP status that a message of a program's names, if it does."""
    found = re.search(r"\bstatus(?: code)?:? (\d{3})\b", text)
    return int(found[1]) if found is not None else None


def encodable(text: str) -> str:
    """Return a text that JSON can hold: bytes of a file name that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def as_count(value: Any) -> int:
    """Return a number that a program reports, or 0 for what is none."""
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0
