"""The one seam between the pool and the event loop it runs on: asyncio or trio.

asyncio's plain reader callbacks cost least; trio has none, so there a task per descriptor waits
and calls. Everything else of the pool is the same under both.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from time import monotonic
from typing import Any, Protocol

from hmz_mp.core.shipment import Shipment
from hmz_mp.core.turns import AsyncioTurn, Canceller, TrioTurn
from hmz_mp.core.wakeups import Wakeups

__all__ = ["AsyncioDriver", "Driver", "TrioDriver", "current_driver"]


class Handle(Protocol):
    """Something to cancel."""

    def cancel(self) -> object:
        """Do not call after all."""


class Driver(Protocol):
    """What the pool asks of a loop. All of it is called on the loop's thread."""

    def new_turn(self, job: Shipment, pool: Canceller) -> AsyncioTurn | TrioTurn:
        """Return an unended turn."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object:
        """Call back whenever ``fd`` is readable."""

    def remove_reader(self, fd: int, /) -> object:
        """Stop that; to be called before the descriptor is closed."""

    def add_writer(self, fd: int, callback: Callable[[], None], /) -> object:
        """Call back whenever ``fd`` is writable."""

    def remove_writer(self, fd: int, /) -> object:
        """Stop that."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call back once the running step of the loop is over."""

    def call_at(self, time: float, callback: Callable[[], None]) -> Handle:
        """Call back at a time of the monotonic clock."""

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``function``, which must not raise, in a task with the caller's context."""

    async def close(self) -> None:
        """Leave nothing behind on the loop."""


def current_driver() -> Driver:
    """Return the driver of the running loop. Raises `RuntimeError` outside one."""
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_task():
            return TrioDriver()
    return AsyncioDriver(asyncio.get_running_loop())


class AsyncioDriver:
    """asyncio, or another loop with its interface."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wakeups = Wakeups(loop)
        self._offset = loop.time() - monotonic()  # 0 with asyncio's own loops
        self._tasks: set[asyncio.Task[None]] = set()
        self.add_reader = loop.add_reader
        self.remove_reader = loop.remove_reader
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer
        self.call_soon = loop.call_soon

    def new_turn(self, job: Shipment, pool: Canceller) -> AsyncioTurn:
        """Return an unended turn."""
        turn = AsyncioTurn(loop=self._wakeups)  # type: ignore[arg-type]  # all that a future asks
        turn.job = job  # so, and not by an __init__, which costs more
        turn._pool = pool
        return turn

    def call_at(self, time: float, callback: Callable[[], None]) -> Handle:
        """Call back at a time of the monotonic clock."""
        return self._loop.call_at(time + self._offset, callback)

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``function``, which must not raise, in a task with the caller's context."""
        task = self._loop.create_task(function())
        self._tasks.add(task)  # the loop itself holds it weakly
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Leave nothing behind on the loop."""


class TrioDriver:
    """trio: system tasks that wait and call back."""

    def __init__(self) -> None:
        self._readers: dict[int, Any] = {}
        self._writers: dict[int, Any] = {}
        self._steps = _Steps()

    def new_turn(self, job: Shipment, pool: Canceller) -> TrioTurn:
        """Return an unended turn."""
        return TrioTurn(job, pool)

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever ``fd`` is readable."""
        import trio

        self._spawn(self._readers, fd, trio.lowlevel.wait_readable, callback)

    def remove_reader(self, fd: int) -> None:
        """Stop that."""
        self._stop(self._readers, fd)

    def add_writer(self, fd: int, callback: Callable[[], None]) -> None:
        """Call back whenever ``fd`` is writable."""
        import trio

        self._spawn(self._writers, fd, trio.lowlevel.wait_writable, callback)

    def remove_writer(self, fd: int) -> None:
        """Stop that."""
        self._stop(self._writers, fd)

    def _spawn(
        self,
        tasks: dict[int, Any],
        fd: int,
        wait: Callable[[int], Any],
        callback: Callable[[], None],
    ) -> None:
        import trio

        self._stop(tasks, fd)
        scope = tasks[fd] = trio.CancelScope()

        async def serve() -> None:
            with scope:
                # Looked at first: the descriptor may be closed by now, and trio registers it
                # with the kernel before it looks.
                while not scope.cancel_called:
                    await wait(fd)
                    callback()

        trio.lowlevel.spawn_system_task(serve)

    def _stop(self, tasks: dict[int, Any], fd: int) -> None:
        scope = tasks.pop(fd, None)
        if scope is not None:
            scope.cancel()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back once the running step of the loop is over."""
        self._steps.add(callback)

    def call_at(self, time: float, callback: Callable[[], None]) -> Handle:
        """Call back at a time of the monotonic clock."""
        import trio

        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await trio.sleep(max(0.0, time - monotonic()))
                callback()

        trio.lowlevel.spawn_system_task(wait)
        return scope

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``function``, which must not raise, in a task with the caller's context."""
        import trio

        trio.lowlevel.spawn_system_task(function, context=copy_context())

    async def close(self) -> None:
        """Stop every waiting task, and let each of them end."""
        import trio

        for tasks in (self._readers, self._writers):
            for fd in list(tasks):
                self._stop(tasks, fd)
        self._steps.close()
        await trio.lowlevel.checkpoint()


class _Steps:
    """A system task of trio that sleeps until there is something to call.

    `run_sync_soon` is for other threads: it writes to a socket each time.
    """

    # The whole state: what is due; the task, once there is one, and whether it sleeps.
    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()
        self._task: Any = None
        self._asleep = False
        self._closed = False

    def add(self, callback: Callable[[], None]) -> None:
        import trio

        self._due.append(callback)
        if self._task is None:
            self._task = trio.lowlevel.spawn_system_task(self._run)
        else:
            self._wake()

    def close(self) -> None:
        """Call what is due, and end."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._asleep:
            import trio

            self._asleep = False
            trio.lowlevel.reschedule(self._task)

    async def _run(self) -> None:
        import trio

        def give_up(_: object) -> Any:
            self._asleep = False
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            while self._due or not self._closed:
                due, self._due = self._due, deque()  # what these add is for the step after
                while due:
                    due.popleft()()
                if self._due:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                elif not self._closed:
                    self._asleep = True
                    await trio.lowlevel.wait_task_rescheduled(give_up)
        finally:
            self._task = None  # trio is over: whoever wants something is told so
