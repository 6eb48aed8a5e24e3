"""How a run stands: what the screen shows at one moment, read from its ledger.

Imported by ``screen``; it knows nothing of terminals. A look costs what counting the rows costs,
and holds no more turns than can be shown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.schema import unstored

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AgentCount", "FailedItem", "Snapshot", "Working", "look"]

_WORKING, _FAILED = 200, 200  # at most, of as many as there are
_ENDED = ("ok", "failed", "cancelled", "not_run")


@dataclass(slots=True)
class AgentCount:
    """One agent, as it is written, and how many of its turns are in each state."""

    agent: str
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """How many turns have ended."""
        return sum(self.counts.get(state, 0) for state in _ENDED)

    @property
    def total(self) -> int:
        """How many turns were submitted."""
        return sum(self.counts.values())


class Working(NamedTuple):
    """A conversation that works now: its session, and the turn of it that runs."""

    session: str
    number: int
    item_id: str
    agent: str
    place: int
    began_at: float


class FailedItem(NamedTuple):
    """A turn that failed, or was stopped as it ran, and why."""

    item_id: str
    session: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment. Times are by ``time.time()``; ``failed`` has the last ones first."""

    run_id: str
    directory: Path
    status: str
    started_at: float
    ended_at: float | None
    at_once: int | None
    agents: tuple[AgentCount, ...]
    working: tuple[Working, ...]
    failed: tuple[FailedItem, ...]
    tokens: int
    cost_usd: float
    last_session: str | None
    problem: str | None
    expected: int = 0  # turns, at least, of a run that goes on
    seconds_left: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status != "running"

    @property
    def seconds(self) -> float:
        """How long the run has taken so far, or took."""
        end = time.time() if self.ended_at is None else self.ended_at
        return max(0.0, end - self.started_at)

    @property
    def failed_count(self) -> int:
        """How many turns failed, or were stopped as they ran."""
        return self.count("failed") + self.count("cancelled")

    def count(self, state: str) -> int:
        """Return how many turns are in a state."""
        return sum(one.counts.get(state, 0) for one in self.agents)

    @property
    def ended(self) -> int:
        """How many turns have ended."""
        return sum(one.ended for one in self.agents)

    @property
    def total(self) -> int:
        """How many turns there are to be, as far as the ledger has it."""
        return max(self.expected, sum(one.total for one in self.agents))


def look(directory: Path) -> Snapshot:
    """Return how the run of a ``directory`` stands. Raises `BadInput` when it cannot be read."""
    with RecordedRun(directory) as run:
        agents, tokens, cost_usd = _agents(run)
        working = tuple(_working(run)) if run.summary.status == "running" else ()
        summary = run.forecast()
        at_once = run.summary.options.get("at_once")
        return Snapshot(
            run_id=run.summary.run_id,
            directory=directory,
            status=run.summary.status,
            started_at=run.summary.started_at,
            ended_at=run.summary.ended_at,
            at_once=at_once if isinstance(at_once, int) and at_once else None,
            agents=agents,
            working=working,
            failed=tuple(_failed(run)),
            tokens=tokens,
            cost_usd=cost_usd,
            last_session=_last_session(run),
            problem=run.summary.problem,
            expected=summary.expected,
            seconds_left=summary.seconds_left,
        )


_SUMS = """
SELECT agent, state, count(*), sum({read}), sum({wrote}), sum({cost}) FROM turns
GROUP BY agent, state ORDER BY min(number)
"""


def _agents(run: RecordedRun) -> tuple[tuple[AgentCount, ...], int, float]:
    agents = {agent: AgentCount(agent) for agent in run.summary.agents}
    names = ("input_tokens", "output_tokens", "cost_usd")
    read, wrote, cost = (name if run.has(name) else "0" for name in names)
    tokens, cost_usd = 0, 0.0
    for name, state, count, *used in run.rows(_SUMS.format(read=read, wrote=wrote, cost=cost)):
        agent = unstored(name)
        counts = agents.setdefault(agent, AgentCount(agent)).counts
        state = run.settled(state)
        counts[state] = counts.get(state, 0) + count
        tokens += used[0] + used[1]
        cost_usd += used[2]
    return tuple(one for one in agents.values() if one.agent or one.counts), tokens, cost_usd


def _working(run: RecordedRun) -> list[Working]:
    query = (
        "SELECT session, number, item_id, agent, place, began_at FROM turns "
        "WHERE state = 'running' ORDER BY number LIMIT ?"
    )
    return [
        Working(session, number, unstored(item_id), unstored(agent), place, began_at or 0.0)
        for session, number, item_id, agent, place, began_at in run.rows(query, [_WORKING])
    ]


def _failed(run: RecordedRun) -> list[FailedItem]:
    states = "'failed', 'cancelled'" + (", 'running', 'waiting'" if _is_over(run) else "")
    query = (
        "SELECT item_id, session, error, error_type FROM turns "  # noqa: S608  (ours)
        f"WHERE state IN ({states}) ORDER BY number DESC LIMIT ?"
    )
    return [
        FailedItem(unstored(item_id), session, unstored(error) or unstored(kind) or "cut short")
        for item_id, session, error, kind in run.rows(query, [_FAILED])
    ]


def _last_session(run: RecordedRun) -> str | None:
    query = "SELECT session FROM turns WHERE began_at IS NOT NULL ORDER BY number DESC LIMIT 1"
    for (session,) in run.rows(query):
        return str(session)
    return None


def _is_over(run: RecordedRun) -> bool:
    return run.summary.status != "running"
