"""Opening ledgers for reading: whole, in use, read-only, damaged, or of another version.

Imported by ``runs.reading`` only, and never writes.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from hmz_mp.errors import BadInput
from hmz_mp.runs.salvage import is_damage
from hmz_mp.runs.schema import READABLE, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["connect", "readable"]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise `BadInput` for what SQLite says of a ledger."""
    try:
        yield
    except sqlite3.Error as error:
        raise BadInput(f"the ledger {str(path)!r} cannot be read: {error}") from error


def connect(path: Path) -> tuple[sqlite3.Connection, sqlite3.Error | None]:
    """Open a ledger that this version can read, damaged or not. Raises `BadInput`."""
    with readable(path):
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
