"""The turn that this process is running, and the state of its session.

A call worker runs one turn at a time, so the turn is the process's, whatever thread asks; a host
worker runs many, so there it is the task's. Outside a worker there is none.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

__all__ = ["RunningTurn", "current_turn", "session_state"]


class Speaker(Protocol):
    """Carries what a turn says to the coordinator."""

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        """Send one thing that the turn of ``ticket`` says."""


class RunningTurn:
    """A turn in a worker: its ticket, its session's states, and who carries what it says."""

    __slots__ = ("session", "sessions", "speaker", "ticket")

    def __init__(
        self, ticket: int, session: int, sessions: dict[int, dict[str, Any]], speaker: Speaker
    ) -> None:
        self.ticket = ticket
        self.session = session
        self.sessions = sessions
        self.speaker = speaker


class _Process:
    """The one turn of a call worker, and whether this process is one that a call forked."""

    __slots__ = ("forked", "turn")

    def __init__(self) -> None:
        self.turn: RunningTurn | None = None
        self.forked = False


process = _Process()
task_turn: ContextVar[RunningTurn | None] = ContextVar("hmz_mp_worker_turn", default=None)


def current_turn() -> RunningTurn | None:
    """Return the turn that the caller runs in, or ``None`` outside one."""
    if process.forked:  # two processes cannot speak on one connection
        return None
    return task_turn.get() or process.turn


def session_state() -> dict[str, Any]:
    """Return the running session's dict, which lives as long as the session does.

    It is lost only with the session's worker. Raises `RuntimeError` outside a session's turn.
    """
    turn = current_turn()
    if turn is None:
        raise RuntimeError("session_state() is for code that runs in a worker; this does not")
    if not turn.session:
        raise RuntimeError(
            "session_state() needs a session: submit this through pool.session(), not the pool"
        )
    return turn.sessions.setdefault(turn.session, {})
