"""Reading runs from their ledgers: finished, in progress, or cut short.

Never writes. Imported by commands and by whoever resumes a run, through ``finding``; it knows
nothing of terminals.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from hmz_mp.core.ambient import TurnRecord, TurnState
from hmz_mp.core.processes import is_alive
from hmz_mp.runs.costs import Costs, read_usages
from hmz_mp.runs.events import TurnSaid, ids_of
from hmz_mp.runs.forecast import forecast
from hmz_mp.runs.opening import connect, readable
from hmz_mp.runs.salvage import is_damage, salvage, sure
from hmz_mp.runs.schema import (
    DATABASE,
    EVENTS_OF_A_TURN,
    REPLACED,
    RESUMABLE,
    TEXT_COLUMNS,
    TURN_COLUMNS,
    patches_that_count,
    stored,
    unstored,
)
from hmz_mp.runs.summaries import SETTLED, settled_rows, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from hmz_mp.runs.summaries import RunSummary

__all__ = ["PatchState", "RecordedRun"]

_STATES = get_args(TurnState)
_WITH_PATCHES = 3  # the first version of a ledger that has them


class PatchState(NamedTuple):
    """What became of a patch: "waiting", "applying", "applied" or "conflict".

    ``reason`` and ``file`` are why it did not fit, and where it was left.
    """

    state: str
    reason: str | None
    file: str | None

    @property
    def problem(self) -> str | None:
        """Why its changes are not in the checkout, or ``None`` if they are."""
        if self.state == "applied":
            return None
        if self.state == "applying":
            return "its patch is applied in part"
        return self.reason or "its patch is not applied yet"


class RecordedRun:
    """One run, open for reading; a context manager. Its turns come as `TurnRecord`s.

    Of a run that is over, turns that never ended are given an end: those that were queued are
    "not_run", those that were running "cancelled".
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._connection, damage = connect(directory / DATABASE)
        self._is_copy = False
        try:
            with readable(directory / DATABASE):
                try:
                    if damage is not None:
                        raise damage
                    self._look()
                except sqlite3.Error as error:
                    self._salvage(error)
        except BaseException:
            self._connection.close()
            raise

    def __repr__(self) -> str:
        return f"<RecordedRun {self.summary.run_id} {self.summary.status}>"

    def __enter__(self) -> RecordedRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; may be called again."""
        self._connection.close()

    def turns(
        self, item_id: str | None = None, *, state: str | None = None
    ) -> Iterator[TurnRecord]:
        """Yield turns in the order they were submitted: all, of one item, or in one state."""
        conditions, values = ["1"], []
        if item_id is not None:
            conditions.append("item_id = ?")
            values.append(stored(item_id))
        if state is not None:
            states = [one for one in _STATES if self.settled(one) == state]
            conditions.append(f"state IN ({', '.join('?' * len(states))})")
            values += states
        return self._records(f"WHERE {' AND '.join(conditions)} ORDER BY number", values)

    def turn(self, number: int) -> TurnRecord:
        """Return one turn. Raises `KeyError` when there is none of this number."""
        for record in self._records("WHERE number = ?", [number]):
            return record
        raise KeyError(number)

    def next_number(self) -> int:
        """Return a number that no turn has had, nor any later one."""
        tables = ["turns", REPLACED] if self.summary.ledger_version >= RESUMABLE else ["turns"]
        found = [self._rows(f"SELECT max(number) FROM {table}", []) for table in tables]  # noqa: S608  (ours)
        highest = [number for rows in found for (number,) in rows if number is not None]
        return max(highest, default=-1) + 1

    def slowest(self, most: int) -> list[TurnRecord]:
        """Return the ``most`` turns that ran longest, the longest first."""
        query = "WHERE seconds IS NOT NULL ORDER BY seconds DESC, number LIMIT ?"
        return list(self._records(query, [most]))

    def patches(self) -> dict[int, PatchState]:
        """Return what became of the patches that count, by the number of their turns."""
        if self.summary.ledger_version < _WITH_PATCHES:
            return {}
        found = {}
        query = patches_that_count(self.summary.ledger_version)
        for number, _, state, _, problem, file in self._rows(query, []):
            found[number] = PatchState(state or "waiting", unstored(problem), unstored(file))
        return found

    def costs(self) -> Costs:
        """Return what the run has used of models, from its turns."""
        costs = Costs()
        tables = ["turns", REPLACED] if self.summary.ledger_version >= RESUMABLE else ["turns"]
        for table in tables if "usage" in self._columns else []:
            found = self._rows(f"SELECT usage FROM {table} WHERE usage != ''", [])  # noqa: S608  (ours)
            costs.add(read_usages(unstored(usage) for (usage,) in found))
        return costs

    def events(self, number: int | None = None) -> Iterator[TurnSaid]:
        """Yield what turns said and did, in order: of one turn, or of all.

        One of the kind "more" says that the rest is in `events.event_file`.
        """
        if self.summary.ledger_version < RESUMABLE:
            return
        query = "SELECT id, at, kind, text FROM events"
        if number is None:
            rows = self._rows(f"{query} ORDER BY id", [])
        else:
            rows = self._rows(f"{query} WHERE id >= ? AND id < ? ORDER BY id", ids_of(number))
        for id_, at, kind, text in rows:
            yield TurnSaid(id_ // EVENTS_OF_A_TURN, at, kind, unstored(text))

    def state(self) -> dict[str, Any]:
        """Return what a resumable flow kept; empty if it kept nothing."""
        if self.summary.ledger_version < RESUMABLE:
            return {}
        ((state,),) = self._rows("SELECT state FROM runs", [])
        return dict(json.loads(state)) if state else {}

    def item_ids(self) -> Iterator[str]:
        """Yield the id of every item, once, in the order first submitted."""
        query = "SELECT item_id FROM turns GROUP BY item_id ORDER BY min(number)"
        return (unstored(item_id) for (item_id,) in self._rows(query, []))

    def columns(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield only these fields of the turns, in order, which costs little where they are small.

        What a ledger of an older version does not have is ``None``.
        """
        chosen = ", ".join(name if name in self._columns else "NULL" for name in names)
        query = f"SELECT {chosen} FROM turns ORDER BY number"  # noqa: S608  (ours)
        found = self._rows(query, [])
        if self.summary.status != "running" and "state" in names:
            found = settled_rows(found, names.index("state"))
        for row in found:
            if bytes in map(type, row):
                fields = zip(names, row, strict=True)
                row = tuple(unstored(it) if name in TEXT_COLUMNS else it for name, it in fields)
            yield row

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield what a query gives, as it is stored; of a damaged ledger what can be read."""
        return self._rows(query, values)

    @property
    def process(self) -> int:
        """The pid of the process that carries the run out, or did."""
        ((pid,),) = self._rows("SELECT pid FROM runs", [])
        return int(pid)

    def numbered(self, *numbers: int) -> Iterator[TurnRecord]:
        """Yield the turns of some numbers, those that there are, in their order."""
        places = ", ".join("?" * len(numbers))
        return self._records(f"WHERE number IN ({places}) ORDER BY number", numbers)

    def marks(self, first: int) -> Iterator[tuple[int, str, int, int]]:
        """Yield number, state, attempts and execution of the turns from a number on, in order.

        And of those that were tried again: these may have ended before, and go on.
        """
        execution = "execution" if self.has("execution") else "1"
        query = (
            f"SELECT number, state, attempts, {execution} FROM turns "  # noqa: S608  (ours)
            "WHERE number >= ? OR attempts > 1 ORDER BY number"
        )
        for number, state, *more in self._rows(query, [first]):
            yield number, self.settled(state), *more

    def commits(self) -> int:
        """Return a number that changes when something is written to the ledger, which costs little.

        A copy of a damaged ledger does not.
        """
        ((version,),) = self._rows("PRAGMA data_version", [])
        return int(version)

    def execution(self) -> int:
        """Return which execution of the run is the last so far, from 1."""
        if self.summary.ledger_version < RESUMABLE:
            return 1
        ((last,),) = self._rows("SELECT max(execution) FROM executions", [])
        return int(last or 1)

    def forecast(self, now: float | None = None) -> RunSummary:
        """Return the summary, of a run that goes on with what is to come, as of ``now``.

        That costs looking at all turns, so it is not in `summary`.
        """
        items = self.summary.items
        if items is None or self.summary.status != "running":
            return self.summary
        began = self.summary.started_at
        if self.summary.ledger_version >= RESUMABLE:
            ((last,),) = self._rows("SELECT max(started_at) FROM executions", [])
            began = began if last is None else last
        now = time.time() if now is None else now
        found = forecast(self._rows, items, self.summary.counts, began, now)
        return replace(self.summary, **found._asdict())

    def goes_on(self) -> bool:
        """Whether a run that went on when it was opened still does; `summary` stays as it was."""
        if self.summary.status != "running":
            return False
        query = "SELECT ended_at, pid, process_started FROM runs"
        ((ended_at, pid, started),) = self._rows(query, [])
        return ended_at is None and is_alive(pid, started)

    def has(self, column: str) -> bool:
        """Whether the turns of this ledger, which may be an older one, have a column."""
        return column in self._columns

    def settled(self, state: str) -> str:
        """Return what a turn's state is taken for, now that the run is over, if it is."""
        return state if self.summary.status == "running" else SETTLED.get(state, state)

    def _records(self, which: str, values: Sequence[Any]) -> Iterator[TurnRecord]:
        over = self.summary.status != "running"
        query = f"SELECT {', '.join(self._columns)} FROM turns {which}"  # noqa: S608  (ours)
        for row in self._rows(query, values):
            record = _record(self._columns, row)
            yield _ended(record) if over else record

    def _rows(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        done = 0
        with readable(self.directory / DATABASE):
            try:
                for rows in sure(self._connection.execute(query, values)):
                    done += len(rows)
                    yield from rows
            except sqlite3.Error as error:
                # Up to where it is damaged, a copy of what is left has the same rows.
                self._salvage(error)
                yield from islice(self._connection.execute(query, values), done, None)

    def _look(self) -> None:
        self.summary = summary_of(self.directory, self._connection)
        self._columns = _columns(self._connection)

    def _salvage(self, error: sqlite3.Error) -> None:
        """Go on with a copy of what is left of a damaged ledger; raises ``error`` if it is not."""
        if self._is_copy or not is_damage(error):
            raise error
        found = salvage(self._connection)
        self._connection.close()
        self._connection, self._is_copy = found.connection, True
        self._look()
        self.summary = replace(self.summary, problem=found.problem)


def _columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the columns that there are; those of later versions keep their defaults."""
    there = {name for _, name, *_ in connection.execute("PRAGMA table_info(turns)")}
    return tuple(name for name in TURN_COLUMNS if name in there)


def _record(columns: tuple[str, ...], row: tuple[Any, ...]) -> TurnRecord:
    values = dict(zip(columns, row, strict=True))
    for name in TEXT_COLUMNS & values.keys():
        values[name] = unstored(values[name])
    return TurnRecord(**values)


def _ended(record: TurnRecord) -> TurnRecord:
    if record.state in SETTLED:
        it_was = "began" if record.state == "queued" else "was done"
        record.state = SETTLED[record.state]
        record.error = record.error or f"the run ended before this turn {it_was}"
    return record
