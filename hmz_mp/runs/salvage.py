"""What is left of a damaged ledger: a copy in memory of every row that can be read still.

Imported by ``runs.reading`` and ``runs.opening``. A file that was cut short, or of which a part was
overwritten, loses some pages; the others are as good as ever. Of a row whose answer is lost the
rest is kept.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Salvaged", "is_damage", "salvage", "sure"]

Row = tuple[Any, ...]

_TRIES = 2000  # rows in a row that are asked for in vain one by one; then in ever larger steps
_AT_A_TIME = 100  # rows
_LAST = 2**40  # no row has so high a number
_MEANT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB})
_UNREADABLE = "Could not decode to UTF-8"


class Salvaged(NamedTuple):
    """A copy that can be read as the ledger itself, and how many turns it has whole and in part."""

    connection: sqlite3.Connection
    whole: int
    in_part: int

    @property
    def problem(self) -> str:
        """What is said to people."""
        said = f"the ledger is damaged: {self.whole + self.in_part:,} turns could be read"
        return f"{said}, {self.in_part:,} of them in part" if self.in_part else said


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged, not that it is locked or away."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # it is of Python's module itself
        return _UNREADABLE in str(error)
    return code & 0xFF in _MEANT


def salvage(damaged: sqlite3.Connection) -> Salvaged:
    """Return what can be read. Raises `sqlite3.Error` if not even the list of tables can be."""
    damaged.text_factory = _text
    (version,) = damaged.execute("PRAGMA user_version").fetchone()
    tables = damaged.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    copy = sqlite3.connect(":memory:", isolation_level=None)
    counts = {}
    try:
        for (table,) in tables:
            counts[table] = _copy(damaged, copy, table)
        copy.execute(f"PRAGMA user_version = {version:d}")
    except BaseException:
        copy.close()
        raise
    return Salvaged(copy, *counts.get("turns", (0, 0)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _copy(damaged: sqlite3.Connection, copy: sqlite3.Connection, table: str) -> tuple[int, int]:
    """Copy the rows of a table that can be read; returns how many whole, and how many in part."""
    columns = damaged.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = ", ".join(f'"{name}"' for _, name, *_ in columns)
    copy.execute(f'CREATE TABLE "{table}" ({names})')
    rows = _Rows(damaged, table, columns)
    places = ", ".join("?" * len(columns))
    copy.execute("BEGIN")
    copy.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows.readable())  # noqa: S608  (ours)
    copy.execute("COMMIT")
    return rows.whole, rows.in_part


def sure(found: sqlite3.Cursor) -> Iterator[list[Row]]:
    """Yield rows, some at a time, but not the last ones before an error.

    Where a page is not to be had, SQLite may give a row of nothing before it says so: of a file
    that was cut short, several.
    """
    held = found.fetchmany(_AT_A_TIME)
    while held:
        following = found.fetchmany(_AT_A_TIME)
        yield held
        held = following


class _Rows:
    """The rows of one table, as far as they can be read."""

    def __init__(
        self, damaged: sqlite3.Connection, table: str, columns: list[tuple[Any, ...]]
    ) -> None:
        self.whole = 0
        self.in_part = 0
        self._damaged = damaged
        self._table = table
        # A column that may not be empty has an empty text instead of what is lost.
        self._columns = {name: "" if must else None for _, name, _, must, _, _ in columns}

    def readable(self) -> Iterator[tuple[Any, ...]]:
        """Yield them in order."""
        last, step, tries = -1, 1, 0
        while last < _LAST:
            try:
                for number, *row in self._from(last + step):
                    if number < last + step:
                        break  # of nothing, see `sure`
                    last, step, tries = number, 1, 0
                    self.whole += 1
                    yield tuple(row)
                else:
                    return
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
            tries += 1
            part = self._part(last + step) if step == 1 else None
            if part is not None:
                self.in_part += 1
                yield part
            step *= 1 if tries <= _TRIES else 2
            last += step

    def _from(self, first: int) -> sqlite3.Cursor:
        query = f'SELECT rowid, * FROM "{self._table}" WHERE rowid >= ? ORDER BY rowid'  # noqa: S608
        return self._damaged.execute(query, [first])

    def _part(self, number: int) -> tuple[Any, ...] | None:
        """Return a row without what of it is lost, ``None`` if that is nearly everything."""
        if self._value(number, "rowid") is _LOST:
            return None
        row = [self._value(number, f'"{name}"') for name in self._columns]
        lost = sum(value is _LOST for value in row)
        if lost > len(row) // 2:
            return None
        instead = self._columns.values()
        return tuple(
            other if value is _LOST else value for value, other in zip(row, instead, strict=True)
        )

    def _value(self, number: int, name: str) -> Any:
        query = f'SELECT {name} FROM "{self._table}" WHERE rowid = ?'  # noqa: S608  (ours)
        try:
            row = self._damaged.execute(query, [number]).fetchone()
        except sqlite3.Error:
            return _LOST
        return _LOST if row is None else row[0]


_LOST = object()
