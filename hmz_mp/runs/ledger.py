"""Writing a run down: one SQLite database per run, one thread that writes it.

Owns the thread; when what was put is committed is the `Backlog`'s. Imported by whoever carries out
a run; it knows nothing of flows, pools or terminals. A ledger that cannot be written never stops
the run: it says so once and keeps quiet.
"""

from __future__ import annotations

import atexit
import math
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.runs.backlog import ENDED, Backlog
from hmz_mp.runs.database import (
    Beginning,
    as_json,
    new_database,
    taken_up,
    write_end,
    write_records,
)
from hmz_mp.runs.directory import make_run_directory, run_id_at
from hmz_mp.runs.events import EventLog, TurnSaid
from hmz_mp.runs.fingerprints import fingerprint_of, place_of
from hmz_mp.runs.masking import Masks
from hmz_mp.runs.schema import DATABASE, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Ledger"]


class Ledger:
    """The record of one run, in ``directory/run.db``, written behind the caller's back.

    `put` costs the caller about a microsecond; a writer thread commits what is waiting: at once
    when it has been idle, or somebody waits; when turns have ended, every four milliseconds;
    otherwise every tenth of a second, or every 2,048 rows. What was committed survives the end of
    this process, however it comes. Methods may be called from any thread, and `finish`, `flush`
    and `close` any number of times.

    ``error`` is ``None``, or why nothing more is written. ``on_error`` is called with it, once,
    and ``on_commit`` after each commit with how many things have been committed so far, as `put`
    counts them, or, once nothing more will be, with `sys.maxsize`; both on the writer's thread
    (``on_error`` on the caller's when the ledger cannot even be opened). They must neither raise
    nor wait for the ledger.
    """

    def __init__(
        self,
        directory: Path,
        *,
        masks: Masks | None = None,
        execution: int = 1,
        on_error: Callable[[str], object] | None = None,
        on_commit: Callable[[int], object] | None = None,
    ) -> None:
        self.directory = directory
        self.error: str | None = None
        self.execution = execution
        self.on_commit = on_commit
        self._on_error = on_error
        self._masks = Masks({}) if masks is None else masks
        self._events = EventLog(directory, self._masks, again=execution > 1)
        self._connection: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None
        self._backlog = Backlog()
        self._lock = threading.Lock()
        self._finished = False

    def __repr__(self) -> str:
        state = "broken" if self.error else "open" if self._backlog.is_open else "closed"
        return f"<Ledger {self.run_id} {state}, {self._backlog!r}>"

    @property
    def run_id(self) -> str:
        """The run's name, which is that of its directory."""
        return self.directory.name

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        *,
        command: Sequence[str],
        flow: str,
        agents: Sequence[str],
        task: str,
        options: Mapping[str, Any],
        on_error: Callable[[str], object] | None = None,
        on_commit: Callable[[int], object] | None = None,
    ) -> Ledger:
        """Return the open ledger of a new run in ``runs_dir``, whatever the disk says.

        When it cannot be made it is returned with ``error`` set, its puts do nothing, and
        ``on_error`` was told. Secrets of the environment are masked in all that is written.
        """
        started_at = time.time()
        masks = Masks()
        try:
            directory = make_run_directory(runs_dir)
        except OSError as error:
            ledger = cls(runs_dir / run_id_at(started_at), on_error=on_error, on_commit=on_commit)
            ledger._break(error)
            return ledger
        ledger = cls(directory, masks=masks, on_error=on_error, on_commit=on_commit)
        beginning = Beginning(command, flow, agents, task, options)
        try:
            ledger._connection = new_database(
                directory / DATABASE, ledger.run_id, started_at, beginning, masks
            )
        except (OSError, sqlite3.Error) as error:
            ledger._break(error)
            return ledger
        ledger._start()
        return ledger

    @classmethod
    def take_up(
        cls,
        directory: Path,
        *,
        beginning: Beginning,
        oldest: int,
        on_error: Callable[[str], object] | None = None,
    ) -> Ledger:
        """Return the open ledger of a run that is over, for one more execution of it.

        Raises `BadInput` when it goes on, cannot be written, or is not of the versions from
        ``oldest`` to this one's; `sqlite3.Error` for what is no ledger.
        """
        masks = Masks()
        connection, execution = taken_up(directory, beginning, masks, oldest)
        ledger = cls(directory, masks=masks, execution=execution, on_error=on_error)
        ledger._connection = connection
        ledger._start()
        return ledger

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the environment, as all that it writes is."""
        return self._masks.text(text)

    def put(self, record: TurnRecord, *, alone: bool = False) -> int:
        """Write the state ``record`` has now; returns how many things there were, with this one.

        ``alone``: nothing else goes on that could be written with it, so it is not to wait.

        ``record.number`` says which turn it is; later states of a turn replace earlier ones. It
        is read when it is written, so what has changed by then is written too: whoever changes a
        record changes its state last. Returns 0 when nothing is written any more.
        """
        return self._backlog.put(record, alone=alone)

    def say(self, number: int, at: float, kind: str, text: str) -> None:
        """Write down what the turn ``number`` said or did, with what is committed next."""
        self._backlog.say(TurnSaid(number, at, kind, text))

    def note(self, statement: str, *values: Any) -> None:
        """Write another row, with what is committed next."""
        self._backlog.note(statement, values)

    def finish(self, status: str, exit_code: int, counts: Mapping[str, int]) -> None:
        """Note how the run ended, and return when that and all before it is written.

        The first call decides; later ones only wait.
        """
        with self._lock:
            if not self._finished:
                self._finished = True
                self._backlog.finish((time.time(), status, exit_code, as_json(counts)))
        self.flush()

    def flush(self) -> bool:
        """Wait until what was put before is committed; returns whether it is."""
        return self._backlog.flush() and self.error is None

    def close(self) -> None:
        """Write what is left, end the writer and close the database."""
        self.flush()
        self._backlog.close()
        thread = self._thread
        if thread is not None:
            thread.join()
            self._thread = None
        atexit.unregister(self.close)

    def _start(self) -> None:
        # A daemon, so that a program which forgets to close still ends; the exit handler runs
        # while daemon threads do, and writes what they have not.
        self._thread = threading.Thread(target=self._write, name="hmz-mp-ledger", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # What follows runs on the writer's thread, but `_break`, which may also run in `create`.

    def _write(self) -> None:
        connection = self._connection
        assert connection is not None
        last = -math.inf
        try:
            while self._backlog.await_batch(last):
                self._commit(connection)
                last = time.monotonic()
        except Exception as error:  # whatever it is, the run goes on without its ledger
            self._break(error)
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection) -> None:
        batch = self._backlog.take()
        ended = [record for record in batch.records if record.state in ENDED]
        for record in ended:
            path = place_of(record)
            if path is not None and record.state == "ok":
                record.fingerprint = fingerprint_of(path)
        connection.execute("BEGIN")
        write_records(connection, batch.records, self._masks)
        if batch.said:
            self._events.write(connection, batch.said)
        self._events.end(connection, [record.number for record in ended])
        for statement, values in batch.rows:
            masked = [stored(self._masks.value(value)) for value in values]
            connection.execute(statement, masked)
        if batch.end is not None:
            write_end(connection, self.execution, batch.end)
        connection.execute("COMMIT")
        self._backlog.written(batch)
        if self.on_commit is not None:
            self.on_commit(batch.total)

    def _break(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.error = f"the run is not being recorded in {str(self.directory)!r}: {reason}"
        self._backlog.lose()
        if self._on_error is not None:
            self._on_error(self.error)
        if self.on_commit is not None:
            self.on_commit(sys.maxsize)
