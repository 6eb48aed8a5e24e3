"""A turn of an ``openai/`` or ``anthropic/`` agent: a chat model, which has no program.

A service remembers nothing, so a conversation is what is sent to it each time. It is kept in its
session's state, in this worker, and line by line in a file of a folder of the agent's, from which
another worker goes on with it when this one is lost.

``history`` is what was said; ``attaching`` puts an item's file into a prompt; ``conversation``
asks. How a service is spoken to is in `hmz_mp_worker.chat`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker import chat, state
from hmz_mp_worker.backends.chat.attaching import with_file
from hmz_mp_worker.backends.chat.conversation import ChatConversation
from hmz_mp_worker.backends.chat.history import History
from hmz_mp_worker.backends.driving import drive
from hmz_mp_worker.backends.protocol import AgentFailed
from hmz_mp_worker.scratch import here

if TYPE_CHECKING:
    from hmz_mp_worker.backends import Request

__all__ = ["EFFORTS", "Settings", "arun"]

EFFORTS = {
    "openai": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "anthropic": ("low", "medium", "high", "xhigh", "max"),
}
_KEPT = "hmz_mp.chat"  # in a session's state


class Settings(msgspec.Struct, frozen=True):
    """An agent's settings: its model, where conversations are kept, and whether files are sent."""

    model: chat.Settings
    folder: str
    attach: bool = True


async def arun(settings: Settings, request: Request) -> str:
    """Take one turn and return the answer. Raises `AgentFailed`."""
    history = _kept(settings, request) if request.conversation else History()
    prompt = with_file(request) if settings.attach else request.prompt
    conversation = ChatConversation(settings.model, history, request.conversation)
    request = msgspec.structs.replace(request, prompt=prompt)
    answer = await drive(conversation, request, strict=True)
    history.end()
    return answer


def _kept(settings: Settings, request: Request) -> History:
    """Return the conversation of a session. Raises `AgentFailed`, once, if it is lost."""
    values = state.session_state()
    kept = values.get(_KEPT)
    if not isinstance(kept, History):
        file = Path(here(settings.folder), f"{request.conversation}.jsonl")
        kept = values[_KEPT] = History(file)
        if not kept.load() and request.begun:
            raise AgentFailed("died", f"its conversation, {file}, is no longer there")
    kept.begin(request.place)
    return kept
