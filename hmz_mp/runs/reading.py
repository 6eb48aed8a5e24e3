"""Reading runs from their ledgers: finished, in progress, or cut short.

Never writes. Imported by commands and by whoever resumes a run; it knows nothing of terminals.
What a killed run left unfinished is told apart by its process: gone, and no end written.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import quote

from hmz_mp.core.ambient import TurnRecord, TurnState
from hmz_mp.core.processes import is_alive
from hmz_mp.errors import BadInput
from hmz_mp.runs.costs import Costs, read_usages
from hmz_mp.runs.events import TurnSaid, ids_of
from hmz_mp.runs.forecast import forecast
from hmz_mp.runs.salvage import is_damage, salvage, sure
from hmz_mp.runs.schema import (
    DATABASE,
    EVENTS_OF_A_TURN,
    READABLE,
    REPLACED,
    RESUMABLE,
    TEXT_COLUMNS,
    TURN_COLUMNS,
    VERSION,
    patches_that_count,
    stored,
    unstored,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

__all__ = [
    "PatchState",
    "RecordedRun",
    "RunSummary",
    "find_run",
    "list_runs",
    "open_run",
]

_LISTED = 10
_WITH_PATCHES = 3  # the first version of a ledger that has them


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
        self._connection, damage = _connect(directory / DATABASE)
        self._is_copy = False
        try:
            with _readable(directory / DATABASE):
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
            found = _settled_rows(found, names.index("state"))
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
        return state if self.summary.status == "running" else _SETTLED.get(state, state)

    def _records(self, which: str, values: Sequence[Any]) -> Iterator[TurnRecord]:
        over = self.summary.status != "running"
        query = f"SELECT {', '.join(self._columns)} FROM turns {which}"  # noqa: S608  (ours)
        for row in self._rows(query, values):
            record = _record(self._columns, row)
            yield _ended(record) if over else record

    def _rows(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        done = 0
        with _readable(self.directory / DATABASE):
            try:
                for rows in sure(self._connection.execute(query, values)):
                    done += len(rows)
                    yield from rows
            except sqlite3.Error as error:
                # Up to where it is damaged, a copy of what is left has the same rows.
                self._salvage(error)
                yield from islice(self._connection.execute(query, values), done, None)

    def _look(self) -> None:
        self.summary = _summary(self.directory, self._connection)
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


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """Return the runs in ``runs_dir``, newest first; none if there is no such directory."""
    found = []
    for directory in _directories(runs_dir):
        try:
            with RecordedRun(directory) as run:
                found.append(run.forecast())
        except BadInput as error:
            found.append(RunSummary(directory.name, directory, "unreadable", problem=str(error)))
    return found


def open_run(runs_dir: Path, run: str) -> RecordedRun:
    """Return the run that `find_run` finds, open; raises `BadInput` when it cannot be read too."""
    return RecordedRun(find_run(runs_dir, run))


def find_run(runs_dir: Path, run: str) -> Path:
    """Return the directory of the run of that id, or whose id begins so.

    "last" is the run that began last. Raises `BadInput`, which lists the runs there are, when
    there is none or more than one.
    """
    directories = _directories(runs_dir)
    if not directories:
        raise BadInput(f"there are no runs in {str(runs_dir)!r}")
    if run == "last":
        return directories[0]
    matching = [one for one in directories if run and one.name.startswith(run)]
    exact = [one for one in matching if one.name == run]
    if len(exact or matching) != 1:
        raise BadInput(_which(run, matching, directories))
    return (exact or matching)[0]


def _directories(runs_dir: Path) -> list[Path]:
    try:
        entries = list(runs_dir.iterdir())
    except OSError:
        return []
    return sorted((one for one in entries if (one / DATABASE).is_file()), reverse=True)


def _which(run: str, matching: list[Path], everything: list[Path]) -> str:
    if matching:
        said, listed = f"{run!r} is the beginning of {len(matching)} runs", matching
    else:
        said, listed = f"there is no run {run!r}", everything
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"{said}; there are: {', '.join(one.name for one in listed[:_LISTED])}{more}"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise BadInput(f"the ledger {str(path)!r} cannot be read: {error}") from error


def _connect(path: Path) -> tuple[sqlite3.Connection, sqlite3.Error | None]:
    """Open a ledger that this version can read, damaged or not. Raises `BadInput`."""
    with _readable(path):
        try:
            return _opened(path, "mode=ro")
        except sqlite3.OperationalError:
            # Where nothing may be written, not even the files beside the database that readers
            # share with its writer, SQLite opens it only as one that nobody writes.
            return _opened(path, "immutable=1")


def _opened(path: Path, mode: str) -> tuple[sqlite3.Connection, sqlite3.Error | None]:
    address = f"file:{quote(bytes(path.absolute()))}?{mode}"
    connection = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None)
    try:
        version, damage = _version(connection)
        if version not in READABLE:
            raise BadInput(_other_version(path, version))
    except BaseException:
        connection.close()
        raise
    return connection, damage


def _version(connection: sqlite3.Connection) -> tuple[int, sqlite3.Error | None]:
    damage = None
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        # A file that was cut short is refused as a whole, unless this is on.
        connection.execute("PRAGMA writable_schema = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        damage = error
    return version, damage


def _other_version(path: Path, version: int) -> str:
    if version == 0:
        return f"the ledger {str(path)!r} has nothing in it yet"
    return (
        f"the ledger {str(path)!r} is of version {version}, and this hmz-mp reads versions up to "
        f"{VERSION}; use the hmz-mp that wrote it"
    )


def _summary(directory: Path, connection: sqlite3.Connection) -> RunSummary:
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


_SETTLED: dict[str, TurnState] = {
    "queued": "not_run",
    "waiting": "not_run",
    "running": "cancelled",
}


_STATES = get_args(TurnState)


def _settled(counts: dict[str, int]) -> dict[str, int]:
    settled: dict[str, int] = {}
    for state, count in counts.items():
        state = _SETTLED.get(state, state)
        settled[state] = settled.get(state, 0) + count
    return settled


def _settled_rows(rows: Iterator[tuple[Any, ...]], place: int) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if row[place] in _SETTLED:
            row = (*row[:place], _SETTLED[row[place]], *row[place + 1 :])
        yield row


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
    if record.state in _SETTLED:
        it_was = "began" if record.state == "queued" else "was done"
        record.state = _SETTLED[record.state]
        record.error = record.error or f"the run ended before this turn {it_was}"
    return record
