"""Writing a run down: one SQLite database per run, one thread that writes it.

Owns the connection and the thread. Imported by whoever carries out a run; it knows nothing of
flows, pools or terminals. A ledger that cannot be written never stops the run: it says so once
and keeps quiet.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sqlite3
import threading
import time
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hmz_mp import __version__
from hmz_mp.runs.directory import make_run_directory, run_id_at
from hmz_mp.runs.schema import DATABASE, TURN_COLUMNS, create_statements, stored, upsert_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Ledger"]

_BATCH_ROWS = 2048
_BATCH_SECONDS = 0.1
_STATEMENT_ROWS = 256

_Row = tuple[Any, ...]
_snapshot: Callable[[TurnRecord], _Row] = attrgetter(*TURN_COLUMNS)


class Ledger:
    """The record of one run, in ``directory/run.db``, written behind the caller's back.

    `put` costs the caller less than a microsecond; a writer thread commits what is waiting, at once
    when it has been idle, otherwise every tenth of a second or every 2,048 rows. What was committed
    survives the end of this process, however it comes. Methods may be called from any thread,
    and `finish`, `flush` and `close` any number of times.

    ``error`` is ``None``, or why nothing more is written. ``on_error`` is called with it, once,
    and ``on_commit`` after each commit with how many puts have been committed so far; both on
    the writer's thread (``on_error`` on the caller's when the ledger cannot even be opened).
    They must neither raise nor wait for the ledger.
    """

    def __init__(
        self,
        directory: Path,
        *,
        on_error: Callable[[str], object] | None = None,
        on_commit: Callable[[int], object] | None = None,
    ) -> None:
        self.directory = directory
        self.error: str | None = None
        self._on_error = on_error
        self._on_commit = on_commit
        self._connection: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None
        # What the threads share, under `_lock`: the turns not yet written, the run's end if it is
        # to be written, the number of puts so far and how many of them are committed, and whether
        # anybody waits for all to be written.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._records: dict[int, TurnRecord] = {}
        self._end: tuple[Any, ...] | None = None
        self._finished = False
        self._puts = 0
        self._committed = 0
        self._waiting = 0
        self._closing = False

    def __repr__(self) -> str:
        state = "broken" if self.error else "closed" if self._closing else "open"
        return f"<Ledger {self.run_id} {state}, {self._committed} of {self._puts} puts written>"

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
        ``on_error`` was told. The command is written as given; nothing of the environment is.
        """
        started_at = time.time()
        try:
            directory = make_run_directory(runs_dir)
        except OSError as error:
            ledger = cls(runs_dir / run_id_at(started_at), on_error=on_error, on_commit=on_commit)
            ledger._break(error)
            return ledger
        ledger = cls(directory, on_error=on_error, on_commit=on_commit)
        row = (ledger.run_id, started_at, flow, task, _json(command), _json(agents), _json(options))
        try:
            ledger._connection = _new_database(directory / DATABASE, row)
        except (OSError, sqlite3.Error) as error:
            ledger._break(error)
            return ledger
        ledger._start()
        return ledger

    def put(self, record: TurnRecord) -> int:
        """Write the state ``record`` has now; returns how many puts there were, this one included.

        ``record.number`` says which turn it is; later states of a turn replace earlier ones. It
        is read when it is written, so what has changed by then is written too: whoever changes a
        record changes its state last.
        """
        with self._lock:
            if self.error is not None or self._closing:
                return self._puts
            self._puts += 1
            self._records[record.number] = record
            if len(self._records) in (1, _BATCH_ROWS):
                self._changed.notify_all()
            return self._puts

    def finish(self, status: str, exit_code: int, counts: Mapping[str, int]) -> None:
        """Note how the run ended, and return when that and all before it is written.

        The first call decides; later ones only wait.
        """
        with self._changed:
            if not self._finished:
                self._finished = True
                self._end = (time.time(), status, exit_code, _json(counts))
        self.flush()

    def flush(self) -> bool:
        """Wait until what was put before is committed; returns whether it is."""
        with self._changed:
            target = self._puts
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: (
                    self._thread is None
                    or self.error is not None
                    or (self._committed >= target and self._end is None)
                )
            )
            self._waiting -= 1
            return self.error is None and self._committed >= target

    def close(self) -> None:
        """Write what is left, end the writer and close the database."""
        self.flush()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
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
            while self._await_work(last):
                self._commit(connection)
                last = time.monotonic()
        except Exception as error:  # whatever it is, the run goes on without its ledger
            self._break(error)
        finally:
            connection.close()

    def _await_work(self, last: float) -> bool:
        """Wait until a batch is due; returns whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._records or self._end or self._closing)
            due = last + _BATCH_SECONDS - time.monotonic()
            if due > 0:
                self._changed.wait_for(self._is_urgent, timeout=due)
            return bool(self._records or self._end)

    def _is_urgent(self) -> bool:
        return len(self._records) >= _BATCH_ROWS or bool(self._waiting) or self._closing

    def _commit(self, connection: sqlite3.Connection) -> None:
        with self._changed:
            records, self._records = list(self._records.values()), {}
            end, puts = self._end, self._puts
        connection.execute("BEGIN")
        _write_rows(connection, list(map(_snapshot, records)))
        if end is not None:
            connection.execute(
                "UPDATE runs SET ended_at = ?, status = ?, exit_code = ?, counts = ?", end
            )
        connection.execute("COMMIT")
        with self._changed:
            self._committed = puts
            if end is not None:
                self._end = None
            self._changed.notify_all()
        if self._on_commit is not None:
            self._on_commit(puts)

    def _break(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        with self._changed:
            self.error = f"the run is not being recorded in {str(self.directory)!r}: {reason}"
            self._records.clear()
            self._changed.notify_all()
        if self._on_error is not None:
            self._on_error(self.error)


def _json(value: Any) -> str:
    # ASCII output escapes lone surrogates, which UTF-8 could not hold.
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)


def _new_database(path: Path, run: _Row) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=30, isolation_level=None, check_same_thread=False, cached_statements=32
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Safe against the end of this process; only the machine's end may cost the last commits.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN")
        for statement in create_statements():
            connection.execute(statement)
        process = (os.getpid(), psutil.Process().create_time(), __version__)
        connection.execute(
            "INSERT INTO runs (run_id, started_at, flow, task, command, agents, options, "
            "pid, process_started, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [stored(value) for value in (*run, *process)],
        )
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _write_rows(connection: sqlite3.Connection, rows: list[_Row]) -> None:
    """Write ``rows`` in few statements of many rows each.

    Every statement gives up the interpreter's lock and, beside a busy loop, waits five
    milliseconds to have it back: row by row, the writer would fall behind any fast run.
    The sizes are powers of two so that the prepared statements are few.
    """
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(TURN_COLUMNS)
    size, done = _STATEMENT_ROWS, 0
    while done < len(rows):
        while size > min(most, len(rows) - done):
            size //= 2
        values = list(chain.from_iterable(rows[done : done + size]))
        try:
            connection.execute(upsert_turns(size), values)
        except UnicodeEncodeError:
            connection.execute(upsert_turns(size), [stored(value) for value in values])
        done += size
