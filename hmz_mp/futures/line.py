"""The way from any thread to an executor's pool, and the thread that serves it.

A line starts with its first call and ends when it was closed and its calls are done. What happens
on the loop's thread is `serving`'s.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor

from hmz_mp.core.pool import Pool
from hmz_mp.errors import PoolClosed
from hmz_mp.futures.calls import Call
from hmz_mp.futures.exits import running
from hmz_mp.futures.serving import Server

__all__ = ["Line"]


class Line:
    """Takes calls to a pool, on a loop in a thread of its own."""

    # The whole state, under the lock: why no more calls are taken, the thread and its loop.
    def __init__(self, pool: Pool, *, echo: bool) -> None:
        self._lock = threading.RLock()  # a finalizer may close an executor amid a submission
        self._refusal: Exception | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()
        self._server = Server(pool, echo=echo, broken=self._break)

    def submit(self, call: Call) -> None:
        """Take a call to the pool. Raises `RuntimeError` when none are taken any more."""
        with self._lock:
            if self._refusal is not None:
                raise copy.copy(self._refusal)
            if self._thread is None:
                self._start()
            self._server.inbox.append(call)
        self._wake()

    def tell(self, call: Call) -> None:
        """Have the loop look at a call again: it was cancelled."""
        self._server.inbox.append(call)
        self._wake()

    def close(self, *, cancel: bool = False, kill: bool = False) -> None:
        """Take no more calls; end when those taken are done.

        ``cancel`` those that have not begun; ``kill`` those that run as well.
        """
        with self._lock:
            if self._refusal is None:
                self._refusal = RuntimeError("cannot schedule new futures after shutdown")
        if kill or cancel:
            self._soon(self._server.kill if kill else self._server.cancel_queued)
        self._soon(self._server.close)

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
        for call in self._server.calls():
            call.end_after_fork(error)

    def _wake(self) -> None:
        # Read after the append: a loop that has just reset it has yet to look at the inbox.
        if not self._server.told:
            self._server.told = True
            self._soon(self._server.take)

    def _soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call something, unless it is over."""
        if self._loop is not None and self._thread is not None:
            try:
                self._loop.call_soon_threadsafe(callback)
            except RuntimeError:  # it is closed, and every call with it
                return

    def _start(self) -> None:
        if running.exiting:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        loop = asyncio.SelectorEventLoop()
        thread = threading.Thread(target=self._run, args=(loop,), name="hmz-mp-executor")
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._thread = loop, thread
        running.lines.add(self)

    # On the loop's thread.

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        reason: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._server.serve())
        except BaseException as error:  # a pool that cannot start: said to every caller
            reason = error
        self._server.finish(reason)
        running.lines.discard(self)
        self._ended.set()

    def _break(self, reason: Exception) -> None:
        """Take no more calls, for a reason that outweighs a shutdown."""
        with self._lock:
            if self._refusal is None or isinstance(reason, BrokenExecutor):
                self._refusal = reason
