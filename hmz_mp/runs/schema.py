"""The ledger's tables, how values are stored in them, and what older ledgers lack.

Imported by ``hmz_mp.runs`` only. A text that UTF-8 cannot hold (a lone surrogate, which is how a
byte of a file name that is not UTF-8 travels) is stored as a blob, encoded with
``surrogatepass``; every other text as text.

Versions: 2 added what agents use, 3 patches, 4 what resuming needs, executions, agents, sessions
and events. A ledger of any version may lack `items`, which nobody depends on.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "DATABASE",
    "EVENTS_OF_A_TURN",
    "READABLE",
    "REPLACED",
    "RESUMABLE",
    "TEXT_COLUMNS",
    "TURN_COLUMNS",
    "VERSION",
    "create_statements",
    "migrate",
    "patches_that_count",
    "replace_statements",
    "stored",
    "unstored",
    "upsert_turns",
]

DATABASE = "run.db"
VERSION = 4
READABLE = range(1, VERSION + 1)  # columns and tables that came later are missing then
RESUMABLE = 4  # the first version that notes what a turn was asked

# Every field of a TurnRecord but `cancel` and `tell`. The small ones come first: SQLite finds a
# column by reading what is before it, and counting states must not read every prompt and answer.
TURN_COLUMNS = {
    "number": "INTEGER PRIMARY KEY",
    "state": "TEXT NOT NULL",
    "place": "INTEGER NOT NULL",
    "attempts": "INTEGER NOT NULL",
    "worker": "INTEGER",
    "submitted_at": "REAL NOT NULL",
    "began_at": "REAL",
    "ended_at": "REAL",
    "seconds": "REAL",
    "execution": "INTEGER NOT NULL DEFAULT 1",
    "agent_id": "TEXT NOT NULL",
    "session": "TEXT NOT NULL",
    "agent": "TEXT NOT NULL",
    "item_id": "TEXT NOT NULL",
    "path": "BLOB",
    "cwd": "TEXT",
    "input_tokens": "INTEGER NOT NULL DEFAULT 0",
    "output_tokens": "INTEGER NOT NULL DEFAULT 0",
    "cost_usd": "REAL NOT NULL DEFAULT 0.0",
    "failure": "TEXT",
    "conversation": "TEXT",
    "kept_as": "TEXT NOT NULL DEFAULT ''",
    "identity": "TEXT NOT NULL DEFAULT ''",
    "fingerprint": "TEXT NOT NULL DEFAULT ''",
    "usage": "TEXT NOT NULL DEFAULT ''",
    "error_type": "TEXT",
    "error": "TEXT",
    "answer": "TEXT",
    "detail": "TEXT",
    "output": "TEXT NOT NULL",
    "prompt": "TEXT NOT NULL",
    "patch": "BLOB",
}
TEXT_COLUMNS = frozenset(name for name, kind in TURN_COLUMNS.items() if kind.startswith("TEXT"))

# One row. What ended it, and the process, are those of its last execution. `state` is what a
# resumable flow keeps, as JSON; `items` how many were selected, once a flow has asked for them.
_RUN_COLUMNS = {
    "run_id": "TEXT PRIMARY KEY",
    "started_at": "REAL NOT NULL",
    "ended_at": "REAL",
    "status": "TEXT",
    "exit_code": "INTEGER",
    "pid": "INTEGER NOT NULL",
    "process_started": "REAL NOT NULL",
    "version": "TEXT NOT NULL",
    "flow": "TEXT NOT NULL",
    "task": "TEXT NOT NULL",
    "command": "TEXT NOT NULL",
    "agents": "TEXT NOT NULL",
    "options": "TEXT NOT NULL",
    "counts": "TEXT",
    "state": "TEXT",
    "items": "INTEGER",
}

_LATER_TABLES = (
    # Where the worktrees of a run came from; one row, if it had any.
    """
CREATE TABLE IF NOT EXISTS checkouts (
    top TEXT NOT NULL,
    git_dir TEXT NOT NULL,
    inside TEXT NOT NULL,
    base TEXT NOT NULL
)
""",
    # What became of the patches of turns: "applying", "applied" or "conflict"; no row is neither.
    # A plan is what a patch that is being applied makes of each file, as JSON.
    """
CREATE TABLE IF NOT EXISTS patches (
    number INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    plan TEXT,
    problem TEXT,
    file TEXT
)
""",
    # A run that is resumed is executed once more: one row for each time. Without an end, it was
    # killed. `environment` is a few variables, the interpreter and the machine, as JSON.
    """
CREATE TABLE IF NOT EXISTS executions (
    execution INTEGER PRIMARY KEY,
    started_at REAL NOT NULL,
    ended_at REAL,
    status TEXT,
    exit_code INTEGER,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    command TEXT NOT NULL,
    environment TEXT NOT NULL
)
""",
    "CREATE TABLE IF NOT EXISTS agents (agent_id TEXT PRIMARY KEY, agent TEXT NOT NULL)",
    # Sessions that are kept, from their first turn on. Turns that stand alone have none.
    """
CREATE TABLE IF NOT EXISTS sessions (
    session TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    kept_as TEXT NOT NULL,
    cwd TEXT,
    opened_at REAL NOT NULL
)
""",
    # What turns said and did. An id is the turn's number, times `EVENTS_OF_A_TURN`, and the place
    # in what it said. Of a turn that said too much the last has the kind "more", and all of them
    # are in `events/NUMBER.jsonl`.
    """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
)
""",
)
EVENTS_OF_A_TURN = 1 << 20

# The patches that count: of turns that were ok, and of a session's only the last, which has all
# that the session changed. One that goes on in another execution may do so in a fresh worktree.
_PATCHES_THAT_COUNT = """
SELECT number, item_id, patches.state, plan, problem, file
FROM turns
LEFT JOIN patches USING (number)
LEFT JOIN (
    SELECT session AS of_session, {execution} AS of_execution, max(place) AS last_place FROM turns
    WHERE state = 'ok' AND patch IS NOT NULL AND place > 0 GROUP BY of_session, of_execution
) ON of_session = session AND of_execution = {execution}
WHERE turns.state = 'ok' AND length(patch) > 0 AND (last_place IS NULL OR place >= last_place)
ORDER BY number
"""


def patches_that_count(version: int) -> str:
    """Return what selects the patches that count, in a ledger of this version, of 3 at least."""
    execution = "execution" if version >= RESUMABLE else "1"
    return _PATCHES_THAT_COUNT.format(execution=execution)


# Rows whose place others have taken, as the flow asked otherwise when it was resumed, or that a
# later try of the same did without: kept for what they have cost.
REPLACED = "replaced"


def create_statements() -> tuple[str, ...]:
    """Return what makes an empty database a ledger, to be run as one transaction."""
    turns = _table("turns", TURN_COLUMNS), _table(REPLACED, TURN_COLUMNS)
    return (
        _table("runs", _RUN_COLUMNS),
        *turns,
        *_LATER_TABLES,
        f"PRAGMA user_version = {VERSION}",
    )


def _table(name: str, columns: dict[str, str]) -> str:
    listed = ", ".join(f"{one} {kind}" for one, kind in columns.items())
    return f"CREATE TABLE IF NOT EXISTS {name} ({listed})"


def migrate(connection: sqlite3.Connection) -> None:
    """Make an older ledger one of this version, within the caller's transaction.

    Tables and columns only ever come: so what is missing is added, empty.
    """
    for table, columns in (("runs", _RUN_COLUMNS), ("turns", TURN_COLUMNS)):
        there = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
        for name, kind in columns.items():
            if name not in there:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    for statement in (_table(REPLACED, TURN_COLUMNS), *_LATER_TABLES):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


@cache
def upsert_turns(rows: int) -> str:
    """Return the statement that writes ``rows`` rows at once, over what is there of them."""
    row = f"({', '.join('?' * len(TURN_COLUMNS))})"
    changes = ", ".join(f"{name} = excluded.{name}" for name in TURN_COLUMNS if name != "number")
    return (
        f"INSERT INTO turns ({', '.join(TURN_COLUMNS)}) VALUES {', '.join([row] * rows)} "  # noqa: S608  (names above)
        f"ON CONFLICT (number) DO UPDATE SET {changes}"
    )


def replace_statements() -> tuple[str, str]:
    """Return what takes a row out of the turns; each takes its number."""
    columns = ", ".join(TURN_COLUMNS)
    return (
        f"INSERT OR REPLACE INTO {REPLACED} ({columns}) SELECT {columns} FROM turns "  # noqa: S608  (names above)
        "WHERE number = ?",
        "DELETE FROM turns WHERE number = ?",
    )


def stored(value: Any) -> Any:
    """Return ``value`` as SQLite can hold it."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value


def unstored(value: Any) -> Any:
    """Return what `stored` was given, for a column that holds text."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value
