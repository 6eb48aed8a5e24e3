"""The patches of a run in its ledger: what they are of, and what became of each.

Owns the ledger's tables ``checkouts`` and ``patches``, and the directory of patches that did not
fit. It is the journal of ``worktrees.applying``. Imported by who carries out a run, and by
commands; it is written beside the ledger's own writer, or after it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.errors import BadInput
from hmz_mp.runs.schema import DATABASE, patches_that_count, stored, unstored
from hmz_mp.worktrees.applying import RecordedPatch
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.patches import Change, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

__all__ = ["PatchJournal"]

_SECONDS = 30.0  # to wait for the ledger's writer
_NAME_LENGTH = 80
_FIRST_VERSION = 3  # of a ledger that has patches


class PatchJournal:
    """The patches of the run in ``directory``; a context manager. Raises `sqlite3.Error`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        path = directory / DATABASE
        if not path.is_file():
            raise BadInput(f"there is no ledger in {str(directory)!r}")
        self._connection = sqlite3.connect(path, timeout=_SECONDS, isolation_level=None)
        try:
            # Safe against the end of this process, as the ledger is.
            self._connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            self._connection.close()
            raise

    def __repr__(self) -> str:
        return f"<PatchJournal {self._directory.name}>"

    def __enter__(self) -> PatchJournal:
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

    # What the patches are of.

    def note_checkout(self, checkout: Checkout, base: str) -> None:
        """Note where the run's worktrees come from, before there is any."""
        values = (checkout.top, checkout.git_dir, checkout.inside, base)
        self._write("DELETE FROM checkouts")  # that of an earlier execution
        self._write("INSERT INTO checkouts VALUES (?, ?, ?, ?)", *values)

    def checkout(self) -> tuple[Checkout, str] | None:
        """Return that, or ``None`` for a run that had no worktrees."""
        if self._version() < _FIRST_VERSION:
            return None
        row = self._connection.execute(
            "SELECT top, git_dir, inside, base FROM checkouts"
        ).fetchone()
        if row is None:
            return None
        top, git_dir, inside, base = map(unstored, row)
        return Checkout(top, git_dir, inside), base

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    # The journal.

    def patches(self) -> Iterator[RecordedPatch]:
        """Yield the patches in item order."""
        query = patches_that_count(self._version())
        for row in self._connection.execute(query).fetchall():
            number, item_id, state, plan, *_ = row
            changes = None if plan is None else _read_plan(plan)
            yield RecordedPatch(number, unstored(item_id), state, changes)

    def unapplied(self) -> list[str]:
        """Return the items whose patches are not in the checkout."""
        return [patch.item_id for patch in self.patches() if patch.state != "applied"]

    def text(self, number: int) -> bytes:
        """Return a patch."""
        query = "SELECT patch FROM turns WHERE number = ?"
        (patch,) = self._connection.execute(query, [number]).fetchone()
        return bytes(patch)

    def applying(self, number: int, plan: Sequence[Change]) -> None:
        """Note what a patch is going to change, before it does."""
        self._note(number, "applying", plan=_written_plan(plan))

    def applied(self, number: int) -> None:
        """Note that it has."""
        self._note(number, "applied")

    def withdrawn(self, number: int) -> None:
        """Note that it has not, and that every file is as before."""
        self._write("DELETE FROM patches WHERE number = ?", number)

    def conflicted(self, number: int, problem: str) -> str:
        """Note that it does not fit, leave it on disk, and return where."""
        query = "SELECT item_id FROM turns WHERE number = ?"
        (item_id,) = self._connection.execute(query, [number]).fetchone()
        file = self._directory / "patches" / _file_name(number, unstored(item_id))
        file.parent.mkdir(exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_bytes(self.text(number))
        fresh.replace(file)
        self._note(number, "conflict", problem=problem, file=str(file))
        return str(file)

    def _note(
        self,
        number: int,
        state: str,
        *,
        plan: str | None = None,
        problem: str | None = None,
        file: str | None = None,
    ) -> None:
        statement = "INSERT OR REPLACE INTO patches VALUES (?, ?, ?, ?, ?)"
        self._write(statement, number, state, plan, problem, file)

    def _write(self, statement: str, *values: Any) -> None:
        try:
            self._connection.execute(statement, [stored(value) for value in values])
        except sqlite3.Error as error:
            raise OSError(
                f"the ledger in {str(self._directory)!r} cannot be written: {error}"
            ) from error


def _file_name(number: int, item_id: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", item_id)[-_NAME_LENGTH:].strip("._-") or "item"
    return f"{number:06}-{name}.patch"


def _written_plan(plan: Sequence[Change]) -> str:
    return json.dumps([(os.fsdecode(path), before, after) for path, before, after in plan])


def _read_plan(plan: str) -> list[Change]:
    return [
        Change(os.fsencode(path), before and Entry(*before), after and Entry(*after))
        for path, before, after in json.loads(plan)
    ]
