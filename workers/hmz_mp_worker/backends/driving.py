"""One agent's turn from its request to its answer: events said on, and answers made to fit.

Owns what is told to the coordinator, interjections on their way in, and asking again for an
answer that does not fit its schema. What is asked, and how, is the conversation's.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from hmz_mp_worker.backends import schemas
from hmz_mp_worker.backends.protocol import (
    AGENT,
    AgentFailed,
    Ask,
    Did,
    Failed,
    Result,
    Text,
    write_agent_event,
)
from hmz_mp_worker.reporting import listen, say

if TYPE_CHECKING:
    from hmz_mp_worker.backends import Request
    from hmz_mp_worker.backends.protocol import Conversation, Event

__all__ = ["ASKED_AGAIN", "drive"]

_PIECE = 400
ASKED_AGAIN = 2  # times that an answer which does not fit its schema is asked for again


async def drive(conversation: Conversation, request: Request, *, strict: bool = False) -> str:
    """Take one turn of a conversation and return the answer. Raises `AgentFailed`.

    ``strict`` asks the service with a schema in which every property is required.
    """
    listen(lambda data: conversation.interject(data.decode("utf-8", "surrogateescape")))
    try:
        return await _drive(conversation, request, strict)
    finally:
        listen(_nothing)  # what comes now is not for whoever has the conversation next


def _nothing(_: bytes) -> None:
    pass


async def _drive(conversation: Conversation, request: Request, strict: bool) -> str:
    schema = None
    if request.schema is not None:
        schema = schemas.schema_for(request.schema, strict=strict)
    ask = Ask(
        request.prompt,
        schema.text if schema is not None else "",
        stream=request.stream and schema is None,
        pursue=request.pursue,
    )
    for left in range(ASKED_AGAIN, -1, -1):
        spoken = _Spoken(0 if ask.stream else _PIECE)
        end = await _turn(conversation, ask, spoken)
        if isinstance(end, Result) and schema is None:
            return spoken.answer(end.answer) if ask.stream else end.answer
        if isinstance(end, Result) and schema is not None:
            try:
                return schema.check(end.answer)
            except schemas.NotOfSchema as error:
                end = Failed("schema", str(error), answer=end.answer)
        assert isinstance(end, Failed)
        if end.kind != "schema" or not left:
            raise AgentFailed(
                end.kind, end.reason, end.retry_after, end.status, end.answer, end.detail
            )
        ask = Ask(_again(end), ask.schema, again=True)
    raise AssertionError("the last round returns or raises")


async def _turn(conversation: Conversation, ask: Ask, spoken: _Spoken) -> Result | Failed:
    end: Event | None = None
    async with aclosing(conversation.turn(ask)) as events:
        async for event in events:
            end = event
            if isinstance(event, Text):
                spoken.add(event.text)
                continue
            spoken.say()
            if isinstance(event, Did):
                spoken.pause()
            if not isinstance(event, (Result, Failed)):
                say(AGENT, write_agent_event(event))
    assert isinstance(end, (Result, Failed)), f"a turn ended in {end}"
    return end


class _Spoken:
    """What an agent says, on its way to the coordinator: in pieces of ``least`` characters.

    Agents speak word by word, and a message for each would cost more than the words. With 0 each
    word is said at once, and somebody reads along: then all that was said is the answer, with a
    paragraph's end where the agent did something in between.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._texts: list[str] = []
        self._length = 0
        self._all: list[str] = []  # if somebody reads along
        self._paused = False

    def add(self, text: str) -> None:
        if self._paused and text and not self._least:
            text = "\n\n" + text
            self._paused = False
        if not self._least:
            self._all.append(text)
        self._texts.append(text)
        self._length += len(text)
        if self._length >= self._least:
            self.say()

    def pause(self) -> None:
        """Take note that the agent does something else than speak."""
        self._paused = bool(self._all)

    def answer(self, last: str) -> str:
        """Return what begins with all that was said, and ends with what the agent said last."""
        said = "".join(self._all)
        if last.startswith(said):
            return last
        return said if said.rstrip().endswith(last.strip()) else f"{said}\n\n{last}"

    def say(self) -> None:
        """Say what is there."""
        if self._texts:
            say("text", "".join(self._texts).encode("utf-8", "surrogateescape"))
            self._texts.clear()
            self._length = 0


def _again(failed: Failed) -> str:
    return (
        f"Your answer cannot be used: {failed.reason}. Give the same answer once more, as JSON "
        "that fits the schema you were given, and nothing else."
    )
