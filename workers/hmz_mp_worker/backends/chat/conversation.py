"""A conversation with a chat model: each turn sends all of it, and adds to it what was replied."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from hmz_mp_worker import chat
from hmz_mp_worker.backends.protocol import Opened, Result, Spent, Text, encodable, judge

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hmz_mp_worker.backends.chat.history import History
    from hmz_mp_worker.backends.protocol import Ask, Event

__all__ = ["ChatConversation"]


class ChatConversation:
    """A conversation. Its state is its history; ``name`` is what it is kept under, if it is."""

    def __init__(self, settings: chat.Settings, history: History, name: str = "") -> None:
        self._settings = settings
        self._history = history
        self._name = name

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Take one turn; see `protocol.Conversation`."""
        if self._name:
            yield Opened(self._name)
        question = chat.User(encodable(ask.prompt))
        messages = [*self._history.messages, question]
        reply = chat.Reply()
        pieces = chat.stream(self._settings, messages, schema=ask.schema, goes_on=bool(self._name))
        async with aclosing(pieces) as heard:
            async for one in heard:
                if isinstance(one, str):
                    yield Text(one)
                else:
                    reply = one
        if reply.usage is not None:
            yield Spent((reply.usage,))
        end = judge(error=reply.failure, status=None, denials=(), answer=reply.text)
        if isinstance(end, Result):
            self._history.add(question, reply)
        yield end

    def interject(self, text: str) -> None:
        """Do nothing: a request that was sent cannot be added to, and nobody is let try."""

    async def close(self) -> None:
        """Do nothing: connections are the worker's."""
