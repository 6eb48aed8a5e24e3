"""The database of a ledger: made, taken up again by a later execution, and written in few steps.

Owns the connections that write turns, and what is noted of the process that does. Imported by the
ledger only; it knows nothing of threads.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
import time
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp import __version__
from hmz_mp.core.cpus import usable_cpus
from hmz_mp.core.processes import is_alive, own_start
from hmz_mp.errors import BadInput
from hmz_mp.runs.schema import (
    DATABASE,
    READABLE,
    TURN_COLUMNS,
    VERSION,
    create_statements,
    migrate,
    stored,
    upsert_turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.masking import Masks

__all__ = ["Beginning", "new_database", "taken_up", "write_end", "write_records"]

_STATEMENT_ROWS = 256
_EXACT = 8  # up to so many rows are one statement
_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "SHELL", "TZ", "VIRTUAL_ENV")

_snapshot: Callable[[TurnRecord], tuple[Any, ...]] = attrgetter(*TURN_COLUMNS)


class Beginning(NamedTuple):
    """How a run was asked for."""

    command: Sequence[str]
    flow: str
    agents: Sequence[str]
    task: str
    options: Mapping[str, Any]


def new_database(
    path: Path, run_id: str, started_at: float, beginning: Beginning, masks: Masks
) -> sqlite3.Connection:
    """Return the database of a new run, open for writing."""
    # Made whole beside its place: who is killed here leaves no ledger, rather than half of one.
    fresh = path.with_name(f"{path.name}.new")
    with _opening(fresh) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement in create_statements():
            connection.execute(statement)
        _insert(
            connection,
            "runs",
            masks,
            run_id=run_id,
            started_at=started_at,
            version=__version__,
            command=as_json(beginning.command),
            **dict(zip(_ASKED_FOR, _asked_for(beginning), strict=True)),
            **_process(),
        )
        _begin_execution(connection, 1, started_at, beginning, masks)
        connection.execute("COMMIT")
        connection.close()
    fresh.replace(path)
    with _opening(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        _set_up(connection)
        return connection


def taken_up(
    directory: Path, beginning: Beginning, masks: Masks, oldest: int
) -> tuple[sqlite3.Connection, int]:
    """Return the database of a run that is over, for one more execution, and its number.

    Only one of many that try gets it. Raises `BadInput` when it goes on, or cannot be written, or
    is of a version before ``oldest`` or after this one; `sqlite3.Error` when it is none.
    """
    path = directory / DATABASE
    with _opening(path) as connection:
        _set_up(connection)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        _check_version(directory, version, oldest)
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute("SELECT pid, process_started, ended_at FROM runs").fetchone()
        if row is None:
            raise BadInput(f"run {directory.name} has nothing in its ledger")
        if row[2] is None and is_alive(row[0], row[1]):
            raise BadInput(
                f"run {directory.name} is going on, in process {row[0]}: there is nothing to resume"
            )
        migrate(connection)
        (last,) = connection.execute("SELECT max(execution) FROM executions").fetchone()
        execution = (last or 1) + 1
        now = time.time()
        _begin_execution(connection, execution, now, beginning, masks)
        process = _process()
        connection.execute(
            "UPDATE runs SET ended_at = NULL, status = NULL, exit_code = NULL, counts = NULL, "
            "pid = ?, process_started = ?, version = ?, "
            "flow = ?, task = ?, agents = ?, options = ?",
            [
                *(process["pid"], process["process_started"], __version__),
                *(stored(masks.value(value)) for value in _asked_for(beginning)),
            ],
        )
        connection.execute("COMMIT")
        return connection, execution


def _check_version(directory: Path, version: int, oldest: int) -> None:
    if version not in READABLE:
        raise BadInput(
            f"the ledger of run {directory.name} is of version {version}, and this hmz-mp writes "
            f"version {VERSION}: resume it with the hmz-mp that wrote it"
        )
    if version < oldest:
        raise BadInput(
            f"run {directory.name} was written by an older hmz-mp, which did not note what its "
            "turns were asked; --retry-failed can be used with it, --resume cannot"
        )


@contextmanager
def _opening(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(
        path, timeout=30, isolation_level=None, check_same_thread=False, cached_statements=32
    )
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _set_up(connection: sqlite3.Connection) -> None:
    # Safe against the end of this process; only the machine's end may cost the last commits.
    connection.execute("PRAGMA synchronous = NORMAL")


_ASKED_FOR = ("flow", "task", "agents", "options")


def _asked_for(beginning: Beginning) -> tuple[str, ...]:
    agents, options = as_json(beginning.agents), as_json(beginning.options)
    return beginning.flow, beginning.task, agents, options


def _process() -> dict[str, Any]:
    return {"pid": os.getpid(), "process_started": own_start()}


def _begin_execution(
    connection: sqlite3.Connection,
    execution: int,
    started_at: float,
    beginning: Beginning,
    masks: Masks,
) -> None:
    _insert(
        connection,
        "executions",
        masks,
        execution=execution,
        started_at=started_at,
        pid=os.getpid(),
        version=__version__,
        command=as_json(beginning.command),
        environment=as_json(_environment()),
    )


def _insert(connection: sqlite3.Connection, table: str, masks: Masks, **values: Any) -> None:
    names, places = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({places})",  # noqa: S608  (names of ours)
        [stored(masks.value(value)) for value in values.values()],
    )


def _environment() -> dict[str, Any]:
    """Return what is noted of the surroundings: never a variable that nobody thought of."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "cpus": usable_cpus(),
        "directory": os.getcwd(),  # noqa: PTH109  (a str)
        "variables": {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
    }


def as_json(value: Any) -> str:
    """Return JSON of a value; what JSON does not know is written as text."""
    # ASCII output escapes lone surrogates, which UTF-8 could not hold.
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)


def write_end(connection: sqlite3.Connection, execution: int, end: tuple[Any, ...]) -> None:
    """Note when and how the run has ended: time, status, exit status, counts as JSON."""
    connection.execute("UPDATE runs SET ended_at = ?, status = ?, exit_code = ?, counts = ?", end)
    connection.execute(
        "UPDATE executions SET ended_at = ?, status = ?, exit_code = ? WHERE execution = ?",
        (*end[:3], execution),
    )


def write_records(
    connection: sqlite3.Connection, records: Sequence[TurnRecord], masks: Masks
) -> None:
    """Write turns as they are now."""
    rows = list(map(_snapshot, records))
    if masks:
        rows = [tuple(map(masks.value, row)) for row in rows]
    _write_rows(connection, rows)


def _write_rows(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Write ``rows`` in few statements of many rows each.

    Every statement gives up the interpreter's lock and, beside a busy loop, waits five
    milliseconds to have it back: row by row, the writer would fall behind any fast run.
    The sizes are few, so that the prepared statements are.
    """
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(TURN_COLUMNS)
    size, done = min(_STATEMENT_ROWS, most), 0
    while done < len(rows):
        left = len(rows) - done
        while size > left:
            size = left if left <= min(_EXACT, most) else size // 2
        values = list(chain.from_iterable(rows[done : done + size]))
        try:
            connection.execute(upsert_turns(size), values)
        except UnicodeEncodeError:
            connection.execute(upsert_turns(size), [stored(value) for value in values])
        done += size
