"""A run as a whole, as its ledger has it, and what became of turns that never ended.

Imported by whoever reads runs. What a killed run left unfinished is told apart by its process:
gone, and no end written.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hmz_mp.core.processes import is_alive
from hmz_mp.errors import BadInput
from hmz_mp.runs.schema import VERSION, unstored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hmz_mp.core.ambient import TurnState

__all__ = ["SETTLED", "RunSummary", "settled_rows", "summary_of"]

# What a turn is taken for that has not ended in a run that has.
SETTLED: dict[str, TurnState] = {
    "queued": "not_run",
    "waiting": "not_run",
    "running": "cancelled",
}


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as a whole. Times are seconds by ``time.time()``.

    ``status`` is how the run ended, or "running", or "interrupted" when its process is gone and
    no end was written, or "unreadable", and then ``problem`` says why and the rest is empty; of a
    ledger that is damaged it says how much could be read.
    ``counts`` has how many turns are in each state, from their rows. ``ended_at`` of an
    interrupted run is when its last turn changed; of a running one it is ``None``.
    ``items`` is how many items were selected, if that was written down yet; ``expected`` how many
    turns there are to be, at least, and ``seconds_left`` in how long they will have ended: both
    only as `RecordedRun.forecast` gives them.
    """

    run_id: str
    directory: Path
    status: str
    started_at: float = 0.0
    ended_at: float | None = None
    exit_code: int | None = None
    flow: str = ""
    task: str = ""
    command: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    ledger_version: int = VERSION
    items: int | None = None
    expected: int = 0
    seconds_left: float | None = None

    @property
    def total(self) -> int:
        """How many turns there are to be, as far as is known."""
        return max(self.turns, self.expected)

    @property
    def turns(self) -> int:
        """How many turns were written down."""
        return sum(self.counts.values())


def summary_of(directory: Path, connection: sqlite3.Connection) -> RunSummary:
    """Return the summary of the run in a ledger. Raises `BadInput` when there is none."""
    connection.row_factory = sqlite3.Row
    run = connection.execute("SELECT * FROM runs").fetchone()
    connection.row_factory = None
    if run is None:
        raise BadInput(f"the ledger of {directory.name} has nothing in it")
    counts = dict(connection.execute("SELECT state, count(*) FROM turns GROUP BY state"))
    status, ended_at = run["status"], run["ended_at"]
    if ended_at is None and is_alive(run["pid"], run["process_started"]):
        status = "running"
    elif ended_at is None:
        status, ended_at = "interrupted", _last_change(connection, run["started_at"])
    if status != "running":
        counts = _settled(counts)
    return RunSummary(
        run_id=run["run_id"],
        directory=directory,
        status=status,
        started_at=run["started_at"],
        ended_at=ended_at,
        exit_code=run["exit_code"],
        flow=unstored(run["flow"]),
        task=unstored(run["task"]),
        command=tuple(json.loads(run["command"])),
        agents=tuple(json.loads(run["agents"])),
        options=json.loads(run["options"]),
        counts=counts,
        ledger_version=connection.execute("PRAGMA user_version").fetchone()[0],
        items=run["items"] if "items" in run.keys() else None,  # noqa: SIM118  (a Row has no names)
    )


def _last_change(connection: sqlite3.Connection, started_at: float) -> float:
    query = "SELECT max(submitted_at), max(began_at), max(ended_at) FROM turns"
    times: tuple[float | None, ...] = connection.execute(query).fetchone()
    return max([started_at, *filter(None, times)])


def _settled(counts: dict[str, int]) -> dict[str, int]:
    settled: dict[str, int] = {}
    for state, count in counts.items():
        state = SETTLED.get(state, state)
        settled[state] = settled.get(state, 0) + count
    return settled


def settled_rows(rows: Iterator[tuple[Any, ...]], place: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of a run that is over, with the state at ``place`` as it is taken for."""
    for row in rows:
        if row[place] in SETTLED:
            row = (*row[:place], SETTLED[row[place]], *row[place + 1 :])
        yield row
