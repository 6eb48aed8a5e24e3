"""The loop as turns see it: the callbacks of turns that end together share one step of it.

asyncio gives each done callback a handle of its own, which costs more than the callback. What is
promised stays: callbacks run on the loop, after the step that ended their turn, in order, each in
its context, and one that raises is reported as the loop reports it. Used by `loop` only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

__all__ = ["Wakeups"]


class Wakeups:
    """Stands in for an asyncio loop where a turn asks it to call its callbacks."""

    # The whole state: the loop, and what is due in its next step.
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: deque[tuple[Callable[..., object], tuple[Any, ...], Context]] = deque()
        self.get_debug = loop.get_debug
        if loop.get_debug():  # which watches each callback by itself
            self.call_soon = loop.call_soon  # type: ignore[assignment,method-assign]  # as below

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context) -> None:
        """Call back in the next step of the loop."""
        if not self._due:
            self.loop.call_soon(self._run)
        self._due.append((callback, args, context))

    def _run(self) -> None:
        due, self._due = self._due, deque()  # what these add is for the step after
        while due:
            callback, args, context = due.popleft()
            try:
                context.run(callback, *args)
            except (SystemExit, KeyboardInterrupt):
                if due:
                    self.loop.call_soon(self._run)
                    self._due.extendleft(reversed(due))
                raise
            except BaseException as error:
                self.loop.call_exception_handler(
                    {"message": f"Exception in callback {callback!r}", "exception": error}
                )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)  # what a future asks of its loop now and then
