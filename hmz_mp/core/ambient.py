"""What surrounds a turn: the run in progress, its pool, and who watches its turns.

Owns the context variables and the small records passed through them. Anything may import this
module; it knows nothing of agents, flows, ledgers or terminals.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hmz_mp.core.pool import Pool

__all__ = [
    "Item",
    "RunContext",
    "TurnObserver",
    "TurnRecord",
    "TurnState",
    "current_pool",
    "current_run",
    "pool_variable",
    "run_variable",
]

# "waiting": its service was too busy, and it will be tried again.
TurnState = Literal["queued", "running", "waiting", "ok", "failed", "cancelled", "not_run"]


class Item(msgspec.Struct, frozen=True):
    """What one turn is about: a file or a record.

    ``item_id`` is unique in its run and never lost. For a file it is the path relative to where
    the run was started, decoded with ``os.fsdecode``, so any bytes survive; ``path`` is the same
    path as bytes, and ``None`` for an item that is not a file. ``text`` is a record's content.
    """

    item_id: str
    path: bytes | None = None
    text: str | None = None


class TurnRecord(msgspec.Struct, eq=False):
    """One agent turn, from submission to its end, as the ledger and the displays see it.

    Times are seconds: the three ``*_at`` by ``time.time()``, ``seconds`` the run time alone.
    """

    item_id: str
    agent: str  # the agent's spec, as written
    agent_id: str
    session: str
    place: int  # which turn of its session, from 0
    prompt: str
    path: bytes | None = None
    cwd: str | None = None
    number: int = -1  # order of submission in the run, from 0; given by the observer
    state: TurnState = "queued"
    answer: str | None = None
    error: str | None = None  # one line
    error_type: str | None = None
    detail: str | None = None  # the traceback, or the end of stderr
    submitted_at: float = 0.0
    began_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    attempts: int = 0
    worker: int | None = None  # pid
    output: str = ""  # what the turn printed and logged
    failure: str | None = None  # what sort of failure of an agent's it is, as in `Failed.kind`
    conversation: str | None = None  # by which the agent's own program knows it
    input_tokens: int = 0  # these are of all attempts, and of all models; cached ones are in it
    output_tokens: int = 0
    cost_usd: float = 0.0
    usage: str = ""  # the same by model, as JSON: a list of `Usage`
    patch: bytes | None = None  # what it changed in its worktree, if it had one
    identity: str = ""  # of what was asked and of whom; see `agents.identity`
    kept_as: str = ""  # by which the session's conversation is kept; empty for one of one turn
    fingerprint: str = ""  # of the item's file as the turn left it; see `runs.fingerprints`
    execution: int = 1  # which execution of the run has asked for it last, from 1
    # Ends the turn behind this record, with a reason, or a `Stopped` that has one.
    cancel: Callable[..., object] | None = None
    # Says something to its agent while it runs; returns whether it could be.
    tell: Callable[[str], bool] | None = None


class TurnObserver(Protocol):
    """Is told of every agent turn, on the coordinator's loop. A run is one."""

    def submitted(self, record: TurnRecord) -> TurnRecord | None:
        """Note a new turn. Raises `Stopped` when no new turns may begin.

        Returns the record of the same turn if it was answered before: then it is not to run.
        """

    def began(self, record: TurnRecord) -> None:
        """Note that the turn was shipped to a worker."""

    def said(self, record: TurnRecord, event: Any) -> None:
        """Note an event of a running turn: progress, a log line, streamed text."""

    def ended(self, record: TurnRecord, then: Callable[[], object]) -> None:
        """Note the turn's one ending; ``state`` and what belongs to it are set.

        ``then`` is called once, on this loop, when that is written down: not before may anybody
        have the answer.
        """


class RunContext(Protocol):
    """The run in progress, as flows and agents see it."""

    @property
    def id(self) -> str:
        """The run's name in its ledger."""

    @property
    def directory(self) -> Path | None:
        """Where the run's files are, its ledger among them; ``None`` if it writes none."""

    def masked(self, text: str) -> str:
        """Return a text as it may be written to a file: without secrets of the environment."""

    @property
    def task(self) -> str:
        """The TASK the run was started with."""

    @property
    def pool(self) -> Pool:
        """The pool that the run's turns go to."""

    @property
    def observer(self) -> TurnObserver:
        """Who is told of every agent turn."""

    def items(self) -> Sequence[Item]:
        """The items the user selected, in order. Raises `BadInput` when there are none."""


run_variable: ContextVar[RunContext | None] = ContextVar("hmz_mp_run", default=None)
pool_variable: ContextVar[Pool | None] = ContextVar("hmz_mp_pool", default=None)


def current_run() -> RunContext | None:
    """Return the run in progress, or ``None`` outside one."""
    return run_variable.get()


def current_pool() -> Pool | None:
    """Return the pool of the run in progress, else the innermost pool entered, else ``None``."""
    run = run_variable.get()
    return run.pool if run is not None else pool_variable.get()
