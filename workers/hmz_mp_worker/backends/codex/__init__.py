"""A turn of a ``codex/`` agent: Codex, spoken to through its app server.

One server process holds the conversations (it calls them threads) of all turns of the same
settings in this worker, each in a directory of its own. A conversation that is kept (a session)
is named by the id that the coordinator gave it, and found by that name by another worker.

``settings`` is how a server is started; ``server`` is one of them, ``servers`` those of a worker;
``reading`` is what is heard of a turn; ``conversation`` drives it. ``oneshot`` is for a Codex that
has no app server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hmz_mp_worker import state
from hmz_mp_worker.backends.codex.conversation import CodexConversation
from hmz_mp_worker.backends.codex.oneshot import ExecConversation
from hmz_mp_worker.backends.codex.servers import Servers
from hmz_mp_worker.backends.codex.settings import EFFORTS, PERMISSIONS, STALL, Settings
from hmz_mp_worker.backends.driving import drive

if TYPE_CHECKING:
    from hmz_mp_worker.backends import Request

__all__ = ["EFFORTS", "PERMISSIONS", "STALL", "Settings", "arun"]

_KEPT = "hmz_mp.codex"  # in a session's state
_servers = Servers()  # of this worker: they outlive turns, on purpose


async def arun(settings: Settings, request: Request) -> str:
    """Take one turn and return the answer. Raises `AgentFailed`."""
    if request.conversation:
        values = state.session_state()
        kept = values.get(_KEPT)
        if not isinstance(kept, (CodexConversation, ExecConversation)):
            kept = values[_KEPT] = await _conversation(settings, request)
        return await drive(kept, request, strict=True)
    conversation = await _conversation(settings, request)
    try:
        return await drive(conversation, request, strict=True)
    finally:
        await conversation.close()


async def _conversation(
    settings: Settings, request: Request
) -> CodexConversation | ExecConversation:
    cwd = request.cwd or os.getcwd()  # noqa: PTH109  # a str, as requests have it
    name, known = request.conversation, request.begun
    if await _servers.can_serve(settings):
        sought = known or request.place > 0
        return CodexConversation(settings, cwd, _servers, name, sought=sought, known=known)
    return ExecConversation(settings, cwd, name, known=known)
