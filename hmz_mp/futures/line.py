"""The way from any thread to a pool, and the thread that the pool's loop runs in.

A line starts with its first call and ends when it was closed and its calls are done. Endings are
handed to their futures a step later than the pool hears of them, so that workers are busy again
before any callback runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from hmz_mp.core.jobs import Job
from hmz_mp.core.loop import AsyncioDriver
from hmz_mp.core.pool import Pool
from hmz_mp.core.shipment import Shipment
from hmz_mp.core.turns import AsyncioTurn, Canceller
from hmz_mp.errors import InitializerFailed, PoolClosed, TurnFailed, WorkerStartFailed
from hmz_mp.futures.calls import Call, CallTurn

__all__ = ["Line"]

_STEP = 256  # calls taken before workers are given some
_log = logging.getLogger("concurrent.futures")


class _Killed(Exception):
    """Raised in the pool's block to end what runs."""


class _Driver(AsyncioDriver):
    """asyncio, where a turn is that of the call which is being submitted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: Line) -> None:
        super().__init__(loop)
        self._line = line
        self.call: Call | None = None

    def new_turn(self, job: Job, pool: Canceller, item_id: str | None) -> AsyncioTurn:
        """Return the turn of `call`."""
        call, self.call = self.call, None
        assert call is not None
        call.turn = CallTurn(call, self._line, job, pool, item_id)
        return cast(AsyncioTurn, call.turn)  # all that a pool does with one, a call's turn has


class Line:
    """Takes calls to a pool, on a loop in a thread of its own."""

    # The whole state. Of any thread, under the lock: why no more calls are taken, and the thread.
    # Of any thread: calls that were made or cancelled and not looked at, and whether the loop was
    # told to. Of the loop's thread: whether it serves or was killed, what came before it did, the
    # turns that have ended, and the call whose future is being ended.
    def __init__(self, pool: Pool, *, echo: bool) -> None:
        self._pool = pool
        self._width = min(pool.width, pool._gate.capacity or pool.width)
        self._echoes = echo
        self._lock = threading.RLock()  # a finalizer may close an executor amid a submission
        self._refusal: Exception | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[Call] = deque()
        self._told = False
        self._closing = asyncio.Event()
        self._ended = threading.Event()
        self._serving = self._killed = False
        self._landed: deque[tuple[CallTurn, Any, BaseException | None]] = deque()
        self._delivering = False
        self._deferred: list[Callable[[], None]] = []
        self._ending: Call | None = None
        self._driver: _Driver

    # From any thread.

    def submit(self, call: Call) -> None:
        """Take a call to the pool. Raises `RuntimeError` when none are taken any more."""
        with self._lock:
            if self._refusal is not None:
                raise copy.copy(self._refusal)
            if self._thread is None:
                self._start()
            self._inbox.append(call)
        self._wake()

    def tell(self, call: Call) -> None:
        """Have the loop look at a call again: it was cancelled."""
        self._inbox.append(call)
        self._wake()

    def close(self, *, cancel: bool = False, kill: bool = False) -> None:
        """Take no more calls; end when those taken are done.

        ``cancel`` those that have not begun; ``kill`` those that run as well.
        """
        with self._lock:
            self._refuse(RuntimeError("cannot schedule new futures after shutdown"))
            if self._thread is None:
                self._ended.set()
        if kill or cancel:
            self._soon(self._kill if kill else self._cancel_queued)
        self._soon(self._closing.set)

    def join(self) -> None:
        """Wait until everything is over, unless the calling thread is what it waits for."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._ended.wait()  # unlike join, it is interrupted by a signal on every Python
            thread.join()

    def forked(self) -> None:
        """Fail what is pending in the child of a fork, which has no thread to serve it."""
        self._lock = threading.RLock()
        error = PoolClosed("this executor belongs to the process that this one was forked from")
        self._refusal = error
        self._thread = None
        coordinator = self._pool._coordinator
        pending = coordinator.pending.values() if coordinator is not None else ()
        turns = [cast(CallTurn, job.turn) for job in pending]
        turns += [turn for turn, _, _ in self._landed]
        calls = [*self._inbox, *(turn.call for turn in turns)]
        for call in calls if self._ending is None else [*calls, self._ending]:
            call.end_after_fork(error)

    def _refuse(self, reason: Exception) -> None:
        if self._refusal is None:
            self._refusal = reason

    def _wake(self) -> None:
        # Read after the append: a loop that has just reset it has yet to look at the inbox.
        if not self._told:
            self._told = True
            self._soon(self._take)

    def _soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call something, unless it is over."""
        if self._loop is not None and self._thread is not None:
            try:
                self._loop.call_soon_threadsafe(callback)
            except RuntimeError:  # it is closed, and every call with it
                return

    def _start(self) -> None:
        if _exit.begun:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        loop = asyncio.SelectorEventLoop()
        thread = threading.Thread(target=self._run, args=(loop,), name="hmz-mp-executor")
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._thread = loop, thread
        _exit.lines.add(self)

    # On the loop's thread.

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        reason: BaseException | None = None
        try:
            with (
                asyncio.Runner(loop_factory=lambda: loop) as runner,
                contextlib.suppress(_Killed),
            ):
                runner.run(self._serve())
        except BaseException as error:  # a pool that cannot start: said to every caller
            reason = error
        self._finish(reason)

    async def _serve(self) -> None:
        async with self._pool as pool:
            self._driver = pool._driver = _Driver(asyncio.get_running_loop(), self)
            self._coordinator.refused = _refused
            self._serving = True
            for callback in self._deferred:
                callback()
            await self._closing.wait()
            while self._inbox:
                self._take()
            await self._coordinator.wait_idle()
            if self._killed:
                raise _Killed  # leaves the pool at once, without waiting for a worker to retire

    def _finish(self, reason: BaseException | None) -> None:
        """End what is left, which is something only where the pool could not do its work."""
        error: Exception = PoolClosed("the executor ended before the call was done")
        if reason is not None and self._serving:
            _log.critical("the loop of an executor ended", exc_info=reason)
        elif reason is not None:
            error = WorkerStartFailed(f"{type(reason).__name__}: {reason}")
            error.__cause__ = reason
        with self._lock:
            self._refuse(error)
        self._deliver()
        while self._inbox:
            call = self._inbox.popleft()
            if call.work is not None:
                call.work = None
                self._fail(call, error)
        _exit.lines.discard(self)
        self._ended.set()

    def _take(self) -> None:
        """Look at calls that were made or cancelled, as many as a step of the loop may take."""
        if not self._serving:
            self._deferred.append(self._take)
            return
        self._told = False  # before looking: who appends after the last look tells again
        inbox = self._inbox
        for _ in range(_STEP):
            if not inbox:
                return
            call = inbox[0]  # it stays there meanwhile, for a fork to find it
            if call.unwanted:
                self._drop(call)
            elif call.work is not None:
                self._begin(call, *call.work)
            inbox.popleft()
        self._told = True
        self._driver.call_soon(self._take)

    def _begin(
        self, call: Call, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        call.work = None
        pool = self._pool
        # One that a worker is free for has begun: it is not to be cancelled by a shutdown.
        if len(self._coordinator.pending) < self._width and not call.begins():
            return
        self._driver.call = call
        try:
            pool._submit(fn, args, kwargs, pool._settings, pool._lane)
        except Exception as error:  # said to whoever waits, as by other executors
            self._fail(call, error)
        except BaseException as error:  # pickling runs the user's code
            self._fail(call, TurnFailed(type(error).__name__, str(error)))

    def _fail(self, call: Call, error: BaseException) -> None:
        if call.begins():
            _quietly(call.set_exception, error)

    def _drop(self, call: Call) -> None:
        """Let go of a call that was cancelled, and tell who waits for it."""
        turn, call.turn = call.turn, None
        if turn is not None:
            self._coordinator.cancel_job(turn.job)
        elif call.work is None:  # it was dropped before
            return
        call.work = None
        call.set_running_or_notify_cancel()

    def _cancel_queued(self) -> None:
        if not self._serving:
            self._deferred.append(self._cancel_queued)
            return
        for call in self._pending():
            if not call.begun and _quietly(call.cancel):
                self._drop(call)

    def _kill(self) -> None:
        if not self._serving:
            self._deferred.append(self._kill)
            return
        self._killed = True
        self._cancel_queued()
        self._coordinator.abandon()

    def _pending(self) -> list[Call]:
        while self._inbox:
            self._take()
        return [cast(CallTurn, job.turn).call for job in self._coordinator.pending.values()]

    @property
    def _coordinator(self) -> Any:
        return self._pool._coordinator

    def land(self, turn: CallTurn, value: Any, error: BaseException | None) -> None:
        """Hand an ending to the caller's future, once the running step of the loop is over."""
        self._landed.append((turn, value, error))
        if not self._delivering:
            self._delivering = True
            self._driver.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        landed = self._landed
        while landed:
            self._ending = landed[0][0].call
            turn, value, error = landed.popleft()
            call = turn.call
            if call.turn is turn and call.begins():
                call.turn = None
                self._echo(turn)
                if error is None:
                    _quietly(call.set_result, value)
                else:
                    self._note(error)
                    _quietly(call.set_exception, error)
            self._ending = None
            del turn, value, error, call  # the caller alone keeps its answer alive

    def _echo(self, turn: CallTurn) -> None:
        """Write what a call printed to where this process prints."""
        output = turn.ran[-1] if turn.ran is not None else b""
        if output and self._echoes and sys.stdout is not None:
            _quietly(sys.stdout.write, output.decode("utf-8", "replace"))

    def _note(self, error: BaseException) -> None:
        """Take no more calls once no worker can be started, and say it."""
        if isinstance(error, WorkerStartFailed) and not isinstance(
            self._refusal, WorkerStartFailed
        ):
            if isinstance(error, InitializerFailed):
                _log.critical("Exception in initializer: %s", error)
            with self._lock:
                self._refusal = error


def _refused(jobs: list[Shipment]) -> list[Shipment]:
    """Have the calls of these jobs begin; return the jobs of those that were cancelled."""
    return [job for job in jobs if not cast(CallTurn, job.turn).call.begins()]


def _quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call what calls users' callbacks, of which none may end the loop."""
    try:
        return function(*args)
    except BaseException:
        _log.exception("a callback of a future raised")
        return None


class _Exit:
    """The lines of this process that run, to be closed when the interpreter exits."""

    def __init__(self) -> None:
        self.lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self.begun = False

    def close(self) -> None:
        """Finish what was submitted, or end it if the program was interrupted."""
        self.begun = True
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


_exit = _Exit()
# At the interpreter's exit threads are joined before anything registered with atexit runs, so
# this is registered where concurrent.futures registers its own.
threading._register_atexit(_exit.close)  # type: ignore[attr-defined]  # as concurrent.futures does
os.register_at_fork(after_in_child=_exit.forked)
