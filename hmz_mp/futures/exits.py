"""What becomes of executors when the interpreter exits, and in the child of a fork.

Owns the one list of the executors that run; it knows nothing of pools.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.futures.line import Line

__all__ = ["running"]


class _Running:
    """The lines of this process that run, to be closed when the interpreter exits."""

    def __init__(self) -> None:
        self.lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self.exiting = False

    def close(self) -> None:
        """Finish what was submitted, or end it if the program was interrupted."""
        self.exiting = True
        lines = list(self.lines)
        interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
        kill = interrupted and not hasattr(sys, "ps1")  # a prompt goes on after one
        try:
            self._close(lines, kill=kill)
        except KeyboardInterrupt:
            self._close(lines, kill=True)
        if kill:
            _end_as_interrupted()

    def _close(self, lines: list[Line], *, kill: bool) -> None:
        for line in lines:
            line.close(kill=kill)
        for line in lines:
            line.join()

    def forked(self) -> None:
        """Leave the parent's lines to the parent."""
        for line in list(self.lines):
            line.forked()
        self.lines.clear()


def _end_as_interrupted() -> None:
    """Have Python end by SIGINT, as it does after a `KeyboardInterrupt` that nobody caught.

    It forgets that one when text is compiled and run afterwards, as some imports do, in any
    thread; so here is another.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")  # noqa: S102  # only one out of text counts


running = _Running()
# At the interpreter's exit threads are joined before anything registered with atexit runs, so
# this is registered where concurrent.futures registers its own.
threading._register_atexit(running.close)  # type: ignore[attr-defined]  # as concurrent.futures does
os.register_at_fork(after_in_child=running.forked)
