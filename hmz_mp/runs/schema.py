"""The ledger's tables, and how values are stored in them. Imported by ``hmz_mp.runs`` only.

A text that UTF-8 cannot hold (a lone surrogate, which is how a byte of a file name that is not
UTF-8 travels) is stored as a blob, encoded with ``surrogatepass``; every other text as text.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "DATABASE",
    "PATCHES_THAT_COUNT",
    "READABLE",
    "TEXT_COLUMNS",
    "TURN_COLUMNS",
    "VERSION",
    "create_statements",
    "stored",
    "unstored",
    "upsert_turns",
]

DATABASE = "run.db"
VERSION = 3
READABLE = range(1, VERSION + 1)  # columns and tables that came later are missing then

# Every field of a TurnRecord but `cancel`. The small ones come first: SQLite finds a column by
# reading what is before it, and counting states must not read every prompt and answer.
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
    "agent_id": "TEXT NOT NULL",
    "session": "TEXT NOT NULL",
    "agent": "TEXT NOT NULL",
    "item_id": "TEXT NOT NULL",
    "path": "BLOB",
    "cwd": "TEXT",
    "input_tokens": "INTEGER NOT NULL",
    "output_tokens": "INTEGER NOT NULL",
    "cost_usd": "REAL NOT NULL",
    "failure": "TEXT",
    "conversation": "TEXT",
    "usage": "TEXT NOT NULL",
    "error_type": "TEXT",
    "error": "TEXT",
    "answer": "TEXT",
    "detail": "TEXT",
    "output": "TEXT NOT NULL",
    "prompt": "TEXT NOT NULL",
    "patch": "BLOB",
}
TEXT_COLUMNS = frozenset(name for name, kind in TURN_COLUMNS.items() if kind.startswith("TEXT"))

_RUNS = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    started_at REAL NOT NULL,
    ended_at REAL,
    status TEXT,
    exit_code INTEGER,
    pid INTEGER NOT NULL,
    process_started REAL NOT NULL,
    version TEXT NOT NULL,
    flow TEXT NOT NULL,
    task TEXT NOT NULL,
    command TEXT NOT NULL,
    agents TEXT NOT NULL,
    options TEXT NOT NULL,
    counts TEXT
)
"""

# Where the worktrees of a run came from; one row, if it had any.
_CHECKOUTS = """
CREATE TABLE checkouts (
    top TEXT NOT NULL,
    git_dir TEXT NOT NULL,
    inside TEXT NOT NULL,
    base TEXT NOT NULL
)
"""
# What became of the patches of turns: "applying", "applied" or "conflict"; no row is neither.
# A plan is what a patch that is being applied makes of each file, as JSON.
_PATCHES = """
CREATE TABLE patches (
    number INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    plan TEXT,
    problem TEXT,
    file TEXT
)
"""

# The patches that count: of turns that were ok, and of a session's only the last, which has all
# that the session changed.
PATCHES_THAT_COUNT = """
SELECT number, item_id, patches.state, plan, problem, file
FROM turns
LEFT JOIN patches USING (number)
LEFT JOIN (
    SELECT session AS conversation_of, max(place) AS last_place FROM turns
    WHERE state = 'ok' AND patch IS NOT NULL AND place > 0 GROUP BY session
) ON conversation_of = session
WHERE turns.state = 'ok' AND length(patch) > 0 AND (last_place IS NULL OR place >= last_place)
ORDER BY number
"""


def create_statements() -> tuple[str, ...]:
    """Return what makes an empty database a ledger, to be run as one transaction."""
    columns = ", ".join(f"{name} {kind}" for name, kind in TURN_COLUMNS.items())
    turns = f"CREATE TABLE turns ({columns})"
    return _RUNS, turns, _CHECKOUTS, _PATCHES, f"PRAGMA user_version = {VERSION}"


def upsert_turns(rows: int) -> str:
    """Return the statement that writes ``rows`` rows at once, over what is there of them."""
    row = f"({', '.join('?' * len(TURN_COLUMNS))})"
    changes = ", ".join(f"{name} = excluded.{name}" for name in TURN_COLUMNS if name != "number")
    return (
        f"INSERT INTO turns ({', '.join(TURN_COLUMNS)}) VALUES {', '.join([row] * rows)} "  # noqa: S608  (names above)
        f"ON CONFLICT (number) DO UPDATE SET {changes}"
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
