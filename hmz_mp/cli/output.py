"""Standard output of a run: answers, or one JSON object per item, in item order.

Owns what goes there with ``--print`` and ``--json``. Imported by ``cli.answering`` and
``cli.conduct``; it knows nothing of flows or displays.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, BinaryIO, Literal

from msgspec import to_builtins

from hmz_mp.agents.verdicts import NEEDS_REVIEW, needs_review
from hmz_mp.runs.costs import read_usage
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.worktrees.applying import Application

__all__ = ["AnswerWriter", "HeldRows", "Style", "give_up_stdout", "own_stdout", "reviewed", "row"]

Style = Literal["print", "json"]
_BUFFERED = 1 << 16  # bytes kept back between two looks at most


class AnswerWriter:
    """Writes the ending of each turn to ``file``; a reader that went away is noted, not raised.

    What is written is kept back until `flush`, or until there is much of it.
    """

    def __init__(self, file: BinaryIO, style: Style) -> None:
        self.closed_by_reader = False
        self.style = style
        self._file = file
        self._form = _json_line if style == "json" else _answer_line
        self._terminal = style == "print" and file.isatty()
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, record: TurnRecord) -> None:
        """Take a record's ending."""
        if not self.closed_by_reader:
            self.add_line(self._form(record))

    def add_line(self, line: str) -> None:
        """Take a line as it is."""
        if self.closed_by_reader:
            return
        if self._terminal:
            line = printable(line, multiline=True)
        self._waiting.append(_encoded(line))
        self._size += len(self._waiting[-1])
        if self._size > _BUFFERED and not self._terminal:
            self.flush()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._waiting)

    @property
    def on_terminal(self) -> bool:
        """Whether people see it as it is written."""
        return self._terminal

    def flush(self) -> None:
        """Write what was kept back."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        try:
            self._file.write(data)
            self._file.flush()
        except BrokenPipeError:
            self.closed_by_reader = True


class HeldRows:
    """Keeps rows of JSON back, from the first whose patch is yet to be applied, until it is.

    So no row says that an item is done whose changes are not in the checkout.
    """

    def __init__(self, writer: AnswerWriter) -> None:
        self._writer = writer
        self._held: list[tuple[int, bool, dict[str, object]]] = []

    def add(self, record: TurnRecord) -> None:
        """Take a record's ending."""
        if self._writer.style == "json" and (record.patch or self._held):
            self._held.append((record.number, bool(record.patch), row(record)))
        else:
            self._writer.add(record)

    def release(self, patches: Application) -> None:
        """Write what was kept back."""
        problems = {refused.number: refused.problem for refused in patches.refused}
        # Without a list of them, it is a problem of all.
        of_all = patches.problem if not problems else None
        for number, has_patch, values in self._held:
            problem = problems.get(number, of_all if has_patch else None)
            self._writer.add_line(_line(reviewed(values, problem)))
        self._held.clear()


def _answer_line(record: TurnRecord) -> str:
    if record.state != "ok" or record.answer is None:
        return ""
    return record.answer if record.answer.endswith("\n") else record.answer + "\n"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "backslashreplace")


def _json_line(record: TurnRecord) -> str:
    return _line(row(record))


def _line(values: Mapping[str, object]) -> str:
    # ASCII, so that a file name that is not UTF-8 is still a JSON string that gives its bytes.
    return json.dumps(values) + "\n"


def row(record: TurnRecord) -> dict[str, object]:
    """Return what ``--json`` says about one turn."""
    status: str = record.state if record.state in ("ok", "not_run") else "failed"
    if needs_review(record):
        status = NEEDS_REVIEW
    return {
        "item_id": record.item_id,
        "status": status,
        "answer": record.answer,
        "error": record.error,
        "seconds": record.seconds,
        "attempts": record.attempts,
        "worker": record.worker,
        "usage": list(map(to_builtins, read_usage(record.usage))),
    }


def reviewed(values: dict[str, object], problem: str | None) -> dict[str, object]:
    """Return what it says then, if there was a ``problem`` with applying the turn's patch."""
    if problem is None or values["status"] != "ok":
        return values
    return values | {"status": NEEDS_REVIEW, "error": problem}


@contextmanager
def own_stdout() -> Iterator[BinaryIO]:
    """Keep standard output for the run alone while this is open; yields the file to write to.

    What anybody else writes there, be it with ``print`` or as a child process, goes to standard
    error.
    """
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except io.UnsupportedOperation:  # a caller in this process has put a buffer there
        buffer = sys.stdout.buffer
        with redirect_stdout(sys.stderr):
            yield buffer
        return
    kept = os.dup(number)
    _point_at_stderr(number)
    file = os.fdopen(kept, "wb")
    try:
        with redirect_stdout(sys.stderr):
            yield file
    finally:
        with suppress(BrokenPipeError):
            file.flush()
        os.dup2(kept, number)
        with suppress(BrokenPipeError):
            file.close()


def _point_at_stderr(number: int) -> None:
    try:
        os.dup2(2, number)
    except OSError:  # it is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def give_up_stdout() -> None:
    """Let what is still to be written to standard output go nowhere: its reader has gone.

    Without this the interpreter would complain as it ends.
    """
    with suppress(OSError, ValueError):  # it is closed, or no file of the system's
        number = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
