"""Where the answers of a run go while it goes on: to standard output, or, without a ledger, aside.

Imported by ``cli.conduct``. How rows are written, and in which order, is in ``output``.
"""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING

from hmz_mp.cli.beginning import say
from hmz_mp.cli.output import AnswerWriter, HeldRows
from hmz_mp.cli.view import View
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hmz_mp.cli.progress import Display
    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.runs.ledger import Ledger
    from hmz_mp.worktrees.applying import Application

__all__ = ["Answers", "stdout_is_broken"]


class Answers:
    """The answers of one run.

    Its whole state: the rows that are kept back, if there is a writer; answers that neither the
    ledger nor standard output takes; and whether the reader of standard output has left, of which
    ``on_reader_left`` is told.
    """

    def __init__(
        self,
        writer: AnswerWriter | None,
        ledger: Ledger,
        display: Display,
        on_reader_left: Callable[[], object],
    ) -> None:
        self.reader_left = False
        self._writer = writer
        self._rows = HeldRows(writer) if writer is not None else None
        self._ledger = ledger
        self._display = display
        self._on_reader_left = on_reader_left
        self._unrecorded: list[str] = []

    def add(self, record: TurnRecord) -> None:
        """Take the record of a turn that has ended."""
        if self._rows is not None:
            self._rows.add(record)
        elif self._ledger.error is not None and record.state == "ok":
            answer = printable(record.answer or "", multiline=True)
            self._unrecorded.append(f"{printable(record.item_id)}: {answer}")

    def release(self, patches: Application) -> None:
        """Let the rows go that waited for what becomes of patches."""
        if self._rows is not None:
            self._rows.release(patches)

    def flush(self) -> None:
        """Write what can be written now."""
        if self._unrecorded:
            with self._display.aside():
                for line in self._unrecorded:
                    say(line)
            self._unrecorded.clear()
        writer = self._writer
        if writer is None or self.reader_left:
            return
        if writer.on_terminal and isinstance(self._display, View) and self._display.is_open:
            return  # the answers come when the screen is given back
        if writer.is_waiting and writer.on_terminal:
            with self._display.aside():
                writer.flush()
        elif writer.is_waiting:
            writer.flush()
        if writer.closed_by_reader:
            self.leave()

    def leave(self) -> None:
        """Take note that nobody reads standard output any more."""
        self.reader_left = True
        self._on_reader_left()


def stdout_is_broken() -> bool:
    """Whether the reader of standard output has gone."""
    if sys.stdout is None:  # as it is when the caller closed it
        return False
    try:
        sys.stdout.flush()
        poll = select.poll()
        poll.register(sys.stdout, 0)
    except BrokenPipeError:
        return True
    except OSError:  # it is no file of the system's, but a buffer of who called
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))
