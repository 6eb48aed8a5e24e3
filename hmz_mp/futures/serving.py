"""Serving the calls of one executor, on the loop's thread: into its pool, and out to their futures.

Endings are handed to their futures a step later than the pool hears of them, so that workers are
busy again before any callback runs. It knows nothing of threads, exits and forks.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from hmz_mp.core.pool import Pool
from hmz_mp.core.shipment import Shipment
from hmz_mp.core.turns import Canceller
from hmz_mp.errors import InitializerFailed, PoolClosed, TurnFailed, WorkerStartFailed
from hmz_mp.futures.calls import Call, CallTurn

__all__ = ["Server"]

_STEP = 256  # calls taken before workers are given some
_log = logging.getLogger("concurrent.futures")


class _Killed(Exception):
    """Raised in the pool's block to end what runs."""


class Server:
    """Serves one executor's calls, from the start of its loop to its end."""

    # The whole state: calls that were made or cancelled and not looked at, and whether the loop
    # was told to (any thread adds to these); whether it serves, was killed or cannot start workers,
    # and what came before it served; the turns that have ended, and the call whose future is being
    # ended.
    def __init__(self, pool: Pool, *, echo: bool, broken: Callable[[Exception], None]) -> None:
        self.inbox: deque[Call] = deque()
        self.told = False
        self._pool = pool
        self._width = min(pool.width, pool._gate.capacity or pool.width)
        self._echoes = echo
        self._broken = broken  # is told why no call can be run any more
        self._closing = asyncio.Event()
        self._serving = self._killed = self._unusable = False
        self._deferred: list[Callable[[], None]] = []
        self._landed: deque[tuple[CallTurn, Any, BaseException | None]] = deque()
        self._delivering = False
        self._ending: Call | None = None
        self._call: Call | None = None  # the one that is being submitted

    async def serve(self) -> None:
        """Run calls until `close`, and those that were taken by then."""
        try:
            async with self._pool:
                self._loop = asyncio.get_running_loop()
                self._coordinator.new_turn = self._new_turn
                self._coordinator.refused = self._refused
                self._serving = True
                for callback in self._deferred:
                    callback()
                await self._closing.wait()
                while self.inbox:
                    self.take()
                await self._coordinator.wait_idle()
                if self._killed:
                    raise _Killed  # out of the pool at once, not when its workers have retired
        except _Killed:
            return

    def close(self) -> None:
        """End when the calls taken are done."""
        self._closing.set()

    def finish(self, reason: BaseException | None) -> None:
        """End what is left, which is something only where the pool could not do its work."""
        error: Exception = PoolClosed("the executor ended before the call was done")
        if reason is not None and self._serving:
            _log.critical("the loop of an executor ended", exc_info=reason)
        elif reason is not None:
            error = WorkerStartFailed(f"{type(reason).__name__}: {reason}")
            error.__cause__ = reason
        self._broken(error)
        self._deliver()
        while self.inbox:
            call = self.inbox.popleft()
            if call.work is not None:
                call.work = None
                self._fail(call, error)

    def calls(self) -> list[Call]:
        """Return every call whose future has not ended, as a fork finds them."""
        coordinator = self._pool._coordinator
        pending = coordinator.pending.values() if coordinator is not None else ()
        turns: list[CallTurn] = [*pending]
        turns += [turn for turn, _, _ in self._landed]
        calls = [*self.inbox, *(turn.call for turn in turns)]
        return calls if self._ending is None else [*calls, self._ending]

    def take(self) -> None:
        """Look at calls that were made or cancelled, as many as a step of the loop may take."""
        if not self._serving:
            self._deferred.append(self.take)
            return
        self.told = False  # before looking: who appends after the last look tells again
        inbox = self.inbox
        for _ in range(_STEP):
            if not inbox:
                return
            call = inbox[0]  # it stays there meanwhile, for a fork to find it
            if call.unwanted:
                self._drop(call)
            elif call.work is not None:
                self._begin(call, *call.work)
            inbox.popleft()
        self.told = True
        self._loop.call_soon(self.take)

    def _begin(
        self, call: Call, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        call.work = None
        pool = self._pool
        # One that a worker is free for has begun: it is not to be cancelled by a shutdown.
        if len(self._coordinator.pending) < self._width and not call.begins():
            return
        self._call = call
        try:
            pool._submit(fn, args, kwargs, pool)
        except Exception as error:  # said to whoever waits, as by other executors
            self._fail(call, error)
        except BaseException as error:  # pickling runs the user's code
            self._fail(call, TurnFailed(type(error).__name__, str(error)))

    def _new_turn(self, job: Shipment, pool: Canceller) -> CallTurn:
        """Return the turn of the call that is being submitted."""
        call, self._call = self._call, None
        assert call is not None
        call.turn = CallTurn(call, self, job, pool)
        return call.turn  # all that a pool does with a turn, this one can

    def _refused(self, jobs: list[Shipment]) -> list[Shipment]:
        """Have the calls of these jobs begin; return the jobs of those that were cancelled."""
        turns = [(job, self._coordinator.pending.get(job.id)) for job in jobs]
        return [job for job, turn in turns if turn is not None and not turn.call.begins()]

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

    def cancel_queued(self) -> None:
        """Cancel the calls that have not begun."""
        if not self._serving:
            self._deferred.append(self.cancel_queued)
            return
        for call in self._pending():
            if not call.begun and _quietly(call.cancel):
                self._drop(call)

    def kill(self) -> None:
        """Cancel the calls that have not begun, and end those that run."""
        if not self._serving:
            self._deferred.append(self.kill)
            return
        self._killed = True
        self.cancel_queued()
        self._coordinator.abandon()

    def _pending(self) -> list[Call]:
        while self.inbox:
            self.take()
        return [turn.call for turn in self._coordinator.pending.values()]

    @property
    def _coordinator(self) -> Any:
        return self._pool._coordinator

    def land(self, turn: CallTurn, value: Any, error: BaseException | None) -> None:
        """Hand an ending to the caller's future, once the running step of the loop is over."""
        self._landed.append((turn, value, error))
        if not self._delivering:
            self._delivering = True
            self._loop.call_soon(self._deliver)

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
        output = turn.job.output
        if output and self._echoes and sys.stdout is not None:
            _quietly(sys.stdout.write, output.decode("utf-8", "replace"))

    def _note(self, error: BaseException) -> None:
        """Say once that no worker can be started, and why."""
        if isinstance(error, WorkerStartFailed) and not self._unusable:
            self._unusable = True
            if isinstance(error, InitializerFailed):
                _log.critical("Exception in initializer: %s", error)
            self._broken(error)


def _quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call what calls users' callbacks, of which none may end the loop."""
    try:
        return function(*args)
    except BaseException:
        _log.exception("a callback of a future raised")
        return None
