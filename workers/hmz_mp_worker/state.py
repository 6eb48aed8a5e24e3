"""The turn that this process is running, and the state of its session.

A call worker runs one turn at a time, so the turn is the process's, whatever thread asks; a host
worker runs many, so there it is the task's. Outside a worker there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

__all__ = [
    "Resource",
    "RunningTurn",
    "close_resources",
    "current_turn",
    "hold",
    "release",
    "session_state",
]


class Speaker(Protocol):
    """Carries what a turn says to the coordinator."""

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        """Send one thing that the turn of ``ticket`` says."""


class RunningTurn:
    """A turn in a worker: its ticket, its session's states, and who carries what it says.

    What it is told goes to ``listener``; until there is one, ``told`` keeps it.
    """

    __slots__ = ("listener", "session", "sessions", "speaker", "ticket", "told")

    def __init__(
        self, ticket: int, session: int, sessions: dict[int, dict[str, Any]], speaker: Speaker
    ) -> None:
        self.ticket = ticket
        self.session = session
        self.sessions = sessions
        self.speaker = speaker
        self.told: list[bytes] = []
        self.listener: Callable[[bytes], None] | None = None

    def tell(self, data: bytes) -> None:
        """Take something that the coordinator tells this turn."""
        if self.listener is not None:
            self.listener(data)
        else:
            self.told.append(data)

    def listen(self, listener: Callable[[bytes], None]) -> None:
        """Have ``listener`` called with what this turn is told, and was told already."""
        self.listener = listener
        told, self.told = self.told, []
        for data in told:
            listener(data)


class Resource:
    """Something that a worker holds beyond a turn, and has to close: a running program."""

    async def close(self) -> None:
        """End it. May be called more than once."""
        raise NotImplementedError


class _Process:
    """What there is one of in a worker.

    The one turn of a call worker; whether this process is one that a call forked; the ticket of
    the last turn that was seen to take long; and what a host worker has to close before it exits.
    """

    __slots__ = ("forked", "late", "resources", "turn")

    def __init__(self) -> None:
        self.turn: RunningTurn | None = None
        self.forked = False
        self.late = 0
        self.resources: dict[Resource, None] = {}


process = _Process()
task_turn: ContextVar[RunningTurn | None] = ContextVar("hmz_mp_worker_turn", default=None)


def current_turn() -> RunningTurn | None:
    """Return the turn that the caller runs in, or ``None`` outside one."""
    if process.forked:  # two processes cannot speak on one connection
        return None
    return task_turn.get() or process.turn


def hold(resource: Resource) -> None:
    """Have a resource closed when this worker ends."""
    process.resources[resource] = None


def release(resource: Resource) -> None:
    """Take note that a resource is closed."""
    process.resources.pop(resource, None)


async def close_resources(resources: list[Resource] | None = None) -> None:
    """Close these, or all that this worker still holds, at once."""
    import asyncio

    held = list(process.resources) if resources is None else resources
    await asyncio.gather(*(one.close() for one in held), return_exceptions=True)


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
