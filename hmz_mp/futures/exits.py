"""What becomes of executors when the interpreter exits, and in the child of a fork.

Owns the one list of the executors that run; it knows nothing of pools.
"""

from __future__ import annotations

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


running = _Running()
# At the interpreter's exit threads are joined before anything registered with atexit runs, so
# this is registered where concurrent.futures registers its own.
threading._register_atexit(running.close)  # type: ignore[attr-defined]  # as concurrent.futures does
os.register_at_fork(after_in_child=running.forked)
