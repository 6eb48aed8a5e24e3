"""A turn of a ``claude/`` agent: Claude Code, spoken to by lines of JSON on its stdin and stdout.

A conversation that is kept (a session) has a program of its own, is known by the id that the
coordinator gave it, and is resumed by that id when its program has ended. A turn that stands
alone takes a program that an earlier one has left, if there is one of the same settings and
directory: the program starts a new conversation in a fraction of the time that it takes to start.

``settings`` is how it is started; ``lines`` what its lines mean; ``conversation`` drives it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hmz_mp_worker import state
from hmz_mp_worker.backends import schemas
from hmz_mp_worker.backends.claude.conversation import ClaudeConversation
from hmz_mp_worker.backends.claude.settings import EFFORTS, PERMISSIONS, STALL, Settings
from hmz_mp_worker.backends.driving import drive
from hmz_mp_worker.backends.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hmz_mp_worker.backends import Request

__all__ = ["EFFORTS", "PERMISSIONS", "STALL", "Settings", "arun"]

_KEPT = "hmz_mp.claude"  # in a session's state
_warm: Warm[ClaudeConversation] = Warm()  # of this worker: programs outlive turns, on purpose


async def arun(settings: Settings, request: Request) -> str:
    """Take one turn and return the answer. Raises `AgentFailed`."""
    if request.conversation:
        return await _go_on(settings, request)
    cwd = request.cwd or os.getcwd()  # noqa: PTH109  # a str, as requests have it
    schema = request.schema
    made_for = (settings, cwd, "" if schema is None else schemas.schema_for(schema).text)
    key: Hashable = object() if settings.fresh else made_for
    conversation = await _warm.obtain(key) or ClaudeConversation(settings, cwd)
    try:
        return await drive(conversation, request)
    finally:
        if conversation.start_seconds is not None:
            _warm.note_start(conversation.start_seconds)
            conversation.start_seconds = None
        if conversation.reusable and not settings.fresh:
            _warm.put(key, conversation)
        else:
            _warm.gone(key)
            await conversation.close()


async def _go_on(settings: Settings, request: Request) -> str:
    """Take a turn of a kept conversation, whose program may end when it is not used: it resumes."""
    conversation = _kept(settings, request)
    _warm.take(conversation)
    try:
        return await drive(conversation, request)
    finally:
        if conversation.alive:
            _warm.put(conversation, conversation)


def _kept(settings: Settings, request: Request) -> ClaudeConversation:
    values = state.session_state()
    kept = values.get(_KEPT)
    if not isinstance(kept, ClaudeConversation):
        kept = values[_KEPT] = ClaudeConversation(
            settings, request.cwd, request.conversation, known=request.begun
        )
    return kept
