"""Asks once: opens the SDK's stream, has it read, and ends it.

The only place where the parts of this package meet.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from hmz_mp_worker.backends.protocol import AgentFailed
from hmz_mp_worker.chat import anthropic, openai
from hmz_mp_worker.chat.clients import NoClient, clients_of_this_loop
from hmz_mp_worker.chat.failures import failed_by, was_closed
from hmz_mp_worker.chat.messages import Reader, Reply, Request, Service, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hmz_mp_worker.backends.protocol import Failed
    from hmz_mp_worker.chat.clients import Client, Clients
    from hmz_mp_worker.chat.messages import Choice, Message, Tool

__all__ = ["AskFailed", "ask", "stream"]


class _Speech(Protocol):
    """How one service is spoken to."""

    def parameters(self, settings: Settings, request: Request) -> dict[str, Any]:
        """Return the arguments of the SDK's call."""

    async def begin(self, client: Client, parameters: dict[str, Any]) -> Any:
        """Return the SDK's stream of events."""

    def reader(self, settings: Settings) -> Reader:
        """Return what reads that stream."""


_SPEECHES: dict[Service, _Speech] = {"openai": openai, "anthropic": anthropic}


class AskFailed(AgentFailed):
    """Raised when a reply does not count. ``reply`` is what came, with what it cost."""

    def __init__(self, reply: Reply) -> None:
        failure = reply.failure
        assert failure is not None
        super().__init__(failure.kind, failure.reason, failure.retry_after, answer=failure.answer)
        self.args = (reply,)  # it is pickled
        self.reply = reply


async def ask(
    settings: Settings,
    messages: Sequence[Message],
    *,
    tools: Sequence[Tool] = (),
    schema: str = "",
    choice: Choice = "auto",
    goes_on: bool = False,
    clients: Clients | None = None,
) -> Reply:
    """Ask a model for one reply. Raises `AskFailed` when that does not count.

    ``schema`` is a JSON schema as text; whether the reply fits it is not checked here. ``choice``
    says whether the model calls ``tools`` as it likes, has to, or must not. ``goes_on`` says that
    the messages will be sent again with more, for services that have to be told what to cache.
    ``clients`` holds the connections; by default those of the running loop, which are closed with
    the worker: outside a worker pass your own, and close them.
    """
    pieces = stream(
        settings,
        messages,
        tools=tools,
        schema=schema,
        choice=choice,
        goes_on=goes_on,
        clients=clients,
    )
    async with aclosing(pieces) as heard:
        async for one in heard:
            if isinstance(one, Reply):
                if one.failure is not None:
                    raise AskFailed(one)
                return one
    raise AssertionError("a stream ends with its reply")


async def stream(
    settings: Settings,
    messages: Sequence[Message],
    *,
    tools: Sequence[Tool] = (),
    schema: str = "",
    choice: Choice = "auto",
    goes_on: bool = False,
    clients: Clients | None = None,
) -> AsyncGenerator[str | Reply, None]:
    """Do the same piece by piece: texts, then one `Reply`, which has failed or not."""
    request = Request(tuple(messages), tuple(tools), schema, choice, goes_on)
    speech = _SPEECHES[settings.service]
    reader = speech.reader(settings)
    client: Client | None = None
    failure: Failed | None = None
    try:
        held = clients_of_this_loop() if clients is None else clients
        client = await held.of(settings)
        parameters = speech.parameters(settings, request)
        events = await _begun(speech, client, parameters)
        try:
            async for event in events:
                if text := reader.take(event):
                    yield text
        finally:
            await events.close()
    except NoClient as error:
        failure = error.failure
    except Exception as error:
        # Whatever the SDK and what is below it raise; there is no one type above them.
        failure = failed_by(error, settings, client)
    reply = reader.reply()
    failure = failure or reply.failure
    if failure is not None:
        failure = msgspec.structs.replace(failure, answer=reply.text)
        reply = msgspec.structs.replace(reply, failure=failure)
    yield reply


async def _begun(speech: _Speech, client: Client, parameters: dict[str, Any]) -> Any:
    """Begin the stream; once more if the connection ended before anything came.

    A server may close one that was kept open in the moment in which it is used again.
    """
    try:
        return await speech.begin(client, parameters)
    except Exception as error:
        if not was_closed(error):
            raise
        return await speech.begin(client, parameters)
