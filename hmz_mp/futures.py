"""The `concurrent.futures` face of the executor, for code without an event loop.

`ProcessExecutor` runs a `Pool` on a loop in a thread of its own; calls go there in groups, by
what has come since the loop last looked. One core: what holds for the pool holds here, so one
call that ends its worker fails alone.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from hmz_mp.core.pool import Pool
from hmz_mp.core.shipment import Settings
from hmz_mp.core.turns import Event, Shipped, Turn
from hmz_mp.errors import PoolClosed

__all__ = ["ProcessExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class _Call(Future[Any]):
    """A future that knows its call, and takes a cancellation to the loop."""

    def __init__(
        self, line: _Line, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__()
        self._line = line
        self.call: tuple[Any, ...] | None = (fn, args, kwargs)
        self.turn: Turn | None = None

    def cancel(self) -> bool:
        """Cancel the call if it has not begun."""
        cancelled = super().cancel()
        if cancelled:
            self._line.soon(self._cancel_turn)
        return cancelled

    def _cancel_turn(self) -> None:
        if self.turn is not None:
            self.turn.cancel()

    def settings(self, pool: Pool) -> Settings:
        """Return the pool's settings, with this future hearing what happens to its turn."""
        return replace(pool._settings, on_event=self.heard)

    def heard(self, turn: Turn, event: Event) -> None:
        """Begin with the turn; a call that is shipped again has begun already."""
        if isinstance(event, Shipped) and not self.running():
            if self.cancelled():
                turn.cancel()
            else:
                self.set_running_or_notify_cancel()

    def ended(self, turn: Turn) -> None:
        """End with the turn."""
        if self.cancelled():
            return
        if turn.cancelled():
            if not self.running() and not self.set_running_or_notify_cancel():
                return
            self.set_exception(PoolClosed("the executor was left before the call was done"))
            return
        error = turn.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(turn.result())


class _Line:
    """The way from any thread to the loop, and the thread that the loop runs in."""

    # The whole state: calls that the loop has not taken yet, and whether it was told of them;
    # the loop, once it runs; whether and how it is to end.
    def __init__(self, pool: Callable[[], Pool]) -> None:
        self._new_pool = pool
        self._lock = threading.Lock()
        self._calls: deque[_Call] = deque()
        self._told = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self.thread: threading.Thread | None = None
        self.closed = False

    def submit(self, call: _Call) -> None:
        """Take a call to the loop, which is started by the first."""
        with self._lock:
            if self.closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self.thread is None:
                self._start()
            self._calls.append(call)
            told, self._told = self._told, True
        if not told:
            self.soon(self._take)

    def soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call something, unless it is over."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(callback)
            except RuntimeError:  # it is over, and every call with it
                return

    def close(self, *, cancel: bool) -> None:
        """Take no more calls; end when those taken are done. ``cancel`` those not begun."""
        with self._lock:
            self.closed = True
            waiting = list(self._calls) if cancel else []
        for call in waiting:
            call.cancel()
        if cancel:
            self.soon(self._cancel_queued)
        self.soon(self._end)

    def join(self) -> None:
        """Wait until the loop is over."""
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()

    def _start(self) -> None:
        self.thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="hmz-mp-executor"
        )
        self.thread.start()
        self._started.wait()
        _lines.add(self)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._turns: dict[Turn, _Call] = {}
        async with self._new_pool() as pool:
            self._pool = pool
            self._started.set()
            await self._stop.wait()
            self._take()

    def _take(self) -> None:
        with self._lock:
            calls, self._calls, self._told = self._calls, deque(), False
        pool = self._pool
        for call in calls:
            if call.cancelled() or call.call is None:
                continue
            fn, args, kwargs = call.call
            call.call = None
            try:
                turn = pool._submit(fn, args, kwargs, call.settings(pool), pool._lane)
            except Exception as error:  # said to whoever waits, as by other executors
                if call.set_running_or_notify_cancel():
                    call.set_exception(error)
                continue
            call.turn = turn
            self._turns[turn] = call
            turn.add_done_callback(self._ended)

    def _ended(self, turn: Turn) -> None:
        self._turns.pop(turn).ended(turn)

    def _cancel_queued(self) -> None:
        self._take()
        for turn, call in list(self._turns.items()):
            if not turn.running():
                call.cancel()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()


# At the interpreter's exit threads are joined before anything registered with atexit runs, so
# this is registered where concurrent.futures registers its own.
_lines: weakref.WeakSet[_Line] = weakref.WeakSet()


def _close_all() -> None:
    for line in list(_lines):
        line.close(cancel=False)
        line.join()


threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # as concurrent.futures does


class ProcessExecutor(Executor):
    """An executor of worker processes: `submit`, `map`, `shutdown`, usable in a ``with``.

    ``max_workers``: how many processes, by default the CPUs this process may use.
    ``initializer(*initargs)`` runs first in each. ``options`` are those of `hmz_mp.Pool`.
    Functions may be lambdas, closures and those of ``__main__``; no guard is needed.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        **options: Any,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")

        def new_pool() -> Pool:
            return Pool(max_workers, initializer=initializer, initargs=initargs, **options)

        new_pool()  # says now what is wrong with the options
        self._line = _Line(new_pool)
        # An executor that is dropped without a shutdown ends when its calls have.
        weakref.finalize(self, self._line.close, cancel=False)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Ship ``fn(*args, **kwargs)`` to a worker; return its future."""
        call = _Call(self._line, fn, args, kwargs)
        self._line.submit(call)
        return call

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Any,
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,
    ) -> Iterator[T]:
        """Return an iterator over ``fn``'s answers, in order.

        Raises `TimeoutError` when an answer is not there ``timeout`` seconds after this call.
        ``chunksize`` is accepted, and changes nothing: short calls travel together anyway.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        return super().map(fn, *iterables, timeout=timeout, **more)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``cancel_futures`` that have not begun; ``wait`` for the others."""
        self._line.close(cancel=cancel_futures)
        if wait:
            self._line.join()
