"""A turn of an ``acp/`` agent: any program that speaks the Agent Client Protocol.

One program holds the conversations (the protocol calls them sessions) of all turns of the same
settings in this worker, each in a directory of its own. A conversation that is kept is known by the
id that its program gave it, and goes on in another program, of another worker too, if the program
can do that.

``settings`` is how a program is started and its sessions are set up; ``agent`` is one of them, over
the protocol's own SDK; ``choices`` is what a session can be set to, ``permissions`` what it may do,
``files`` those that it has written; ``reading`` is what is heard of a turn; ``conversation`` drives
it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hmz_mp_worker import state
from hmz_mp_worker.backends.acp.agent import AcpAgent
from hmz_mp_worker.backends.acp.conversation import AcpConversation
from hmz_mp_worker.backends.acp.settings import KINDS, PERMISSIONS, STALL, Settings
from hmz_mp_worker.backends.driving import drive
from hmz_mp_worker.backends.shared import Shared

if TYPE_CHECKING:
    from hmz_mp_worker.backends import Request

__all__ = ["KINDS", "PERMISSIONS", "STALL", "Settings", "arun"]

_KEPT = "hmz_mp.acp"  # in a session's state
_agents: Shared[AcpAgent] = Shared()  # of this worker: they outlive turns, on purpose


async def arun(settings: Settings, request: Request) -> str:
    """Take one turn and return the answer. Raises `AgentFailed`."""
    if request.conversation:
        values = state.session_state()
        kept = values.get(_KEPT)
        if not isinstance(kept, AcpConversation):
            kept = values[_KEPT] = _conversation(settings, request)
        return await drive(kept, request)
    conversation = _conversation(settings, request)
    try:
        return await drive(conversation, request)
    finally:
        await conversation.close()


def _conversation(settings: Settings, request: Request) -> AcpConversation:
    cwd = request.cwd or os.getcwd()  # noqa: PTH109  # a str, as requests have it
    return AcpConversation(
        settings,
        cwd,
        _agents,
        kept=bool(request.conversation),
        known_as=request.known_as,
        known=request.begun,
    )
