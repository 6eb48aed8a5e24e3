"""Blocking twins: coroutine functions called from code that is not on the loop they need.

`call` is the whole of a blocking twin. From a thread of a run (a plain ``def`` flow) it goes to
the run's loop; from a script with no loop at all it goes to this process's own pool, which has a
thread and a loop of its own, starts on first use and is closed at exit. `on_a_pool` and
`each_on_a_pool` bring awaited calls that are made outside any pool to the same place.

Owns that one pool and how to get onto a loop. Tools and agents import it; it knows of neither.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from anyio import from_thread

from hmz_mp.core.ambient import current_pool, pool_variable, run_variable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from concurrent.futures import Future

    from anyio.from_thread import BlockingPortal

    from hmz_mp.core.pool import Pool

__all__ = ["Home", "call", "close", "each_on_a_pool", "home", "on_a_pool", "start"]

T = TypeVar("T")


class Home(Protocol):
    """A loop: the thread it runs in, and what is done on it."""

    thread: int

    def soon(self, callback: Callable[[], object], /) -> object:
        """Have the loop call something soon. May be called from any thread."""

    def waiter(self) -> Awaitable[None]:
        """Return something that one task may await until it is woken."""

    def wake(self, waiter: Any) -> None:
        """Let a waiter's task go on."""


class _AsyncioHome:
    """An asyncio loop, whose own futures cost less than anyio's events."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.thread = threading.get_ident()
        self.soon = loop.call_soon_threadsafe
        self.waiter = loop.create_future

    def wake(self, waiter: asyncio.Future[None]) -> None:
        """Let a waiter's task go on, unless it was cancelled."""
        if not waiter.done():
            waiter.set_result(None)


class _TrioHome:
    """trio's loop."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.soon = sys.modules["trio"].lowlevel.current_trio_token().run_sync_soon

    def waiter(self) -> _TrioWaiter:
        """Return something that a task may await."""
        return _TrioWaiter()

    def wake(self, waiter: _TrioWaiter) -> None:
        """Let a waiter's task go on."""
        waiter.set()


class _TrioWaiter:
    __slots__ = ("_event", "set")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.set = self._event.set

    def __await__(self) -> Generator[Any, None, None]:
        return self._event.wait().__await__()


def home() -> Home:
    """Return the loop that the caller runs on."""
    return _TrioHome() if _on_trio() else _AsyncioHome(asyncio.get_running_loop())


def call(function: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
    """Run a coroutine function to its end, from a thread that is not on a loop.

    Raises `RuntimeError` on a loop's own thread, which it would block, and in a thread that has a
    pool around it and was not started by anyio.
    """
    if _on_a_loop():
        raise RuntimeError(
            "this call would block the event loop that it waits for; "
            f"await {getattr(function, '__name__', 'its twin')}() instead"
        )
    if _in_a_worker_thread():
        return from_thread.run(partial(_awaited, function, args, kwargs))
    if current_pool() is not None:
        raise RuntimeError(
            "this thread cannot reach the event loop of the pool around it: start it with "
            "anyio.to_thread.run_sync, which keeps the way back"
        )
    future = _own.start(function, *args, **kwargs)
    try:
        return future.result()
    except BaseException:  # an interrupt; when it is the future's own failure, this does nothing
        future.cancel()
        raise


async def on_a_pool(function: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
    """Await a coroutine function here if there is a pool around, else on this process's own."""
    if current_pool() is not None:
        return await function(*args, **kwargs)
    future = _own.start(function, *args, **kwargs)
    done = anyio.Event()
    soon = home().soon

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is gone
            soon(done.set)

    future.add_done_callback(wake)
    try:
        await done.wait()
    finally:
        future.cancel()
    return future.result()


async def each_on_a_pool(
    function: Callable[..., AsyncGenerator[T, None]], /, *args: Any, **kwargs: Any
) -> AsyncGenerator[T, None]:
    """Iterate an async generator function the same way."""
    if current_pool() is not None:
        values = function(*args, **kwargs)
        try:
            async for value in values:
                yield value
        finally:
            with anyio.CancelScope(shield=True):
                await values.aclose()
        return
    values = function(*args, **kwargs)
    try:
        while (got := await on_a_pool(_next, values)) is not None:
            yield got[0]
    finally:
        with anyio.CancelScope(shield=True):
            await on_a_pool(values.aclose)


async def _next(values: AsyncGenerator[T, None]) -> tuple[T] | None:
    # StopAsyncIteration is not to cross a future.
    async for value in values:
        return (value,)
    return None


async def _awaited(
    function: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T:
    return await function(*args, **kwargs)


def _on_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _on_trio()
    return True


def _in_a_worker_thread() -> bool:
    try:
        from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


class _OwnPool:
    """This process's own pool, on a thread and a loop of its own."""

    # The whole state: what was started, in which process, and what closes it.
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._started: tuple[BlockingPortal, Pool] | None = None
        self._closing = contextlib.ExitStack()

    def start(
        self, function: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        """Start a coroutine function on the loop, with the pool around it."""
        portal, pool = self._open()
        return portal.start_task_soon(_inside, pool, function, args, kwargs)

    def _open(self) -> tuple[BlockingPortal, Pool]:
        with self._lock:
            if self._started is None or self._pid != os.getpid():  # a fork has no threads
                self._started = self._start()
                self._pid = os.getpid()
            return self._started

    def _start(self) -> tuple[BlockingPortal, Pool]:
        from hmz_mp.core.pool import Pool

        self._closing = contextlib.ExitStack()
        portal = self._closing.enter_context(from_thread.start_blocking_portal(name="hmz_mp pool"))
        pool = self._closing.enter_context(portal.wrap_async_context_manager(Pool()))
        atexit.register(self.close)
        return portal, pool

    def close(self) -> None:
        """End the pool and its workers at once. The next use starts another."""
        with self._lock:
            if self._started is None or self._pid != os.getpid():
                return
            self._started = None
            atexit.unregister(self.close)
            with contextlib.suppress(SystemExit, CancelledError):
                # By exception: what still runs is ended, not waited for.
                self._closing.__exit__(SystemExit, SystemExit(), None)


async def _inside(
    pool: Pool,
    function: Callable[..., Awaitable[T]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> T:
    # The caller's context came along, with the pool of another loop in it.
    run_variable.set(None)
    pool_variable.set(pool)
    return await function(*args, **kwargs)


_own = _OwnPool()
start = _own.start
close = _own.close
