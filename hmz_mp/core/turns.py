"""Turns: awaitable futures on the coordinator's loop, and what is heard of them.

Under asyncio a turn is a real `asyncio.Future`, so that `gather`, `wait` and `as_completed` take
it as it is and an awaited turn costs no task. Under trio it is a small twin with the same methods.
A turn refers to its job, and no job to its turn: cycles would be the garbage collector's work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from hmz_mp.core.jobs import Job, JobState

if TYPE_CHECKING:
    from hmz_mp.core.shipment import Shipment

__all__ = [
    "Account",
    "AsyncioTurn",
    "Event",
    "Logged",
    "Progress",
    "PutBack",
    "Said",
    "Shipped",
    "TrioTurn",
    "Turn",
    "guarded",
]


class Account(msgspec.Struct, frozen=True):
    """What a turn that ran cost.

    ``worker`` is its process's pid, ``began`` by the monotonic clock, ``seconds`` the run time
    of the last attempt, ``output`` what it printed.
    """

    worker: int | None
    began: float
    seconds: float
    attempts: int
    output: str


class Shipped(msgspec.Struct, frozen=True):
    """The turn was handed to the worker of pid ``worker``."""

    worker: int


class PutBack(msgspec.Struct, frozen=True):
    """The turn waits, for ``seconds`` at least, as its service is too busy."""

    seconds: float


class Progress(msgspec.Struct, frozen=True):
    """The turn says how far it is: ``fraction`` from 0 to 1, ``words`` for people."""

    fraction: float
    words: str


class Logged(msgspec.Struct, frozen=True):
    """The turn logged something."""

    level: int
    logger: str
    text: str


class Said(msgspec.Struct, frozen=True):
    """The turn said something of a kind that its backend defines."""

    kind: str
    data: bytes


Event = Shipped | PutBack | Progress | Logged | Said


class Canceller(Protocol):
    """Cancels turns: the pool."""

    def cancel_job(self, job: Job) -> bool:
        """End a job for its caller; return False if it has ended already."""

    def tell_job(self, job: Job, data: bytes) -> bool:
        """Tell a running job something; return False if it does not run on a host worker."""


class Turn(Protocol):
    """One call shipped to a worker: await it, or ask it."""

    @property
    def item_id(self) -> str | None:
        """What the turn is about, as `Pool.options` was told."""

    @property
    def account(self) -> Account | None:
        """What the turn cost, once it has ended; ``None`` if it never ran."""

    @property
    def id(self) -> int:
        """The turn's number in its pool, from 1."""

    def __await__(self) -> Generator[Any, None, Any]: ...

    def done(self) -> bool:
        """Whether the turn has ended."""

    def running(self) -> bool:
        """Whether a worker has the turn now."""

    def result(self) -> Any:
        """Return the answer, or raise what the turn failed with."""

    def exception(self) -> BaseException | None:
        """Return what the turn failed with, or ``None``."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the turn; a running call is really stopped. False if it has ended."""

    def tell(self, data: bytes) -> bool:
        """Tell a running ``async def`` turn something. False if it is not running as one."""

    def cancelled(self) -> bool:
        """Whether the turn was cancelled."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call ``fn(turn)`` on the loop once the turn has ended."""


def _account(job: Shipment) -> Account | None:
    if job.seconds is None:
        return None
    text = job.output.decode("utf-8", "replace")
    return Account(job.pid, job.began, job.seconds, job.attempts + job.setbacks, text)


class TurnLoop(Protocol):
    """The loop as turns see it: `wakeups.Wakeups`."""

    loop: asyncio.AbstractEventLoop


class AsyncioTurn(asyncio.Future[Any]):
    """A turn on an asyncio loop; made by the loop's driver, which gives it its job."""

    __slots__ = ("_make_error", "_pool", "_told", "job")

    job: Shipment
    _pool: Canceller
    _loop: TurnLoop  # type: ignore[assignment]  # asyncio's own name for it
    _make_error: Callable[[], BaseException]  # these two once it has failed
    _told: bool

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop the turn is bound to."""
        return self._loop.loop

    @property
    def id(self) -> int:
        """The turn's number in its pool, from 1."""
        return self.job.id

    @property
    def item_id(self) -> str | None:
        """What the turn is about."""
        return self.job.settings.item_id

    @property
    def account(self) -> Account | None:
        """What the turn cost, once it has ended; ``None`` if it never ran."""
        return _account(self.job)

    def running(self) -> bool:
        """Whether a worker has the turn now."""
        return self.job.state is JobState.SHIPPED

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the turn; a running call is really stopped. False if it has ended."""
        # Its failure may be decided, and told in the next step of the loop.
        if self.done() or not self._pool.cancel_job(self.job):
            return False
        return super().cancel(msg)

    def tell(self, data: bytes) -> bool:
        """Tell a running ``async def`` turn something. False if it is not running as one."""
        return self._pool.tell_job(self.job, data)

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """End the turn with a failure, made anew for each who asks."""
        self._make_error = make_error
        self._told = False
        self.set_exception(make_error())
        self.__class__ = FailedTurn  # so that a turn that does not fail pays nothing

    def __repr__(self) -> str:
        return _describe(self, self.job)


class FailedTurn(AsyncioTurn):
    """What a turn becomes that has failed: whoever awaits it is raised an exception of his own."""

    __slots__ = ()

    def exception(self) -> BaseException:
        error = super().exception()
        if self._told or error is None:
            return self._make_error()
        self._told = True
        return error

    def result(self) -> Any:
        raise self.exception()

    def __await__(self) -> Generator[Any, None, Any]:
        raise self.exception()
        yield  # a generator, as the protocol wants it

    __iter__ = __await__


class TrioTurn:
    """A turn under trio."""

    def __init__(self, job: Shipment, pool: Canceller) -> None:
        import trio

        self.job = job
        self._pool = pool
        self._ended = trio.Event()
        self._cancelled = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._make_error: Callable[[], BaseException] | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    @property
    def id(self) -> int:
        """The turn's number in its pool, from 1."""
        return self.job.id

    @property
    def item_id(self) -> str | None:
        """What the turn is about."""
        return self.job.settings.item_id

    @property
    def account(self) -> Account | None:
        """What the turn cost, once it has ended; ``None`` if it never ran."""
        return _account(self.job)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        import trio

        try:
            await self._ended.wait()
        except trio.Cancelled:
            self.cancel()
            raise
        return self.result()

    def done(self) -> bool:
        """Whether the turn has ended."""
        return self._ended.is_set()

    def running(self) -> bool:
        """Whether a worker has the turn now."""
        return self.job.state is JobState.SHIPPED

    def result(self) -> Any:
        """Return the answer, or raise what the turn failed with."""
        error = self.exception()
        if error is not None:
            raise error.with_traceback(None)
        return self._value

    def exception(self) -> BaseException | None:
        """Return what the turn failed with, or ``None``."""
        if not self.done():
            raise asyncio.InvalidStateError("the turn has not ended")
        if self._cancelled:
            raise asyncio.CancelledError("the turn was cancelled")
        error, self._error = self._error, None
        return error if error is not None or self._make_error is None else self._make_error()

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002  # as asyncio's futures take it
        """Cancel the turn; a running call is really stopped. False if it has ended."""
        if self.done() or not self._pool.cancel_job(self.job):
            return False
        self._cancelled = True
        self._finish()
        return True

    def tell(self, data: bytes) -> bool:
        """Tell a running ``async def`` turn something. False if it is not running as one."""
        return self._pool.tell_job(self.job, data)

    def cancelled(self) -> bool:
        """Whether the turn was cancelled."""
        return self._cancelled

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call ``fn(turn)`` once the turn has ended, or now if it has."""
        if self.done():
            with guarded("a done callback"):
                fn(self)
        else:
            self._callbacks.append(fn)

    def set_result(self, value: Any) -> None:
        """End the turn with an answer."""
        self._value = value
        self._finish()

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """End the turn with a failure, made anew for each who asks."""
        self._make_error = make_error
        self._error = make_error()
        self._finish()

    def _finish(self) -> None:
        self._ended.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            with guarded("a done callback"):
                callback(self)

    def __repr__(self) -> str:
        return _describe(self, self.job)


@contextlib.contextmanager
def guarded(what: str) -> Iterator[None]:
    """Log what a caller's callback raises, so that it costs no other turn its end."""
    try:
        yield
    except Exception:
        logging.getLogger("hmz_mp").exception("%s raised", what)


def _describe(turn: AsyncioTurn | TrioTurn, job: Shipment) -> str:
    if turn.cancelled():
        state = "cancelled"
    elif turn.done():
        state = "failed" if turn.exception() is not None else "done"
    else:
        state = "running" if turn.running() else "queued"
    item = f" item_id={turn.item_id!r}" if turn.item_id is not None else ""
    return f"<Turn {job.id} {state}{item}>"
