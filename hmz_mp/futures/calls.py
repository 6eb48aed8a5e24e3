"""One call of an executor, from both sides: the caller's future, and the turn that the pool ends.

The future belongs to any thread; the turn to the loop's thread alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from hmz_mp.core.shipment import Shipment
from hmz_mp.core.turns import Canceller
from hmz_mp.errors import PoolClosed

__all__ = ["Call", "CallTurn", "Work"]

Work = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Teller(Protocol):
    """The way to the loop that serves a call."""

    def tell(self, call: Call) -> None:
        """Have the loop look at a call that was cancelled."""


class Lander(Protocol):
    """The way back."""

    def land(self, turn: CallTurn, value: Any, error: BaseException | None) -> None:
        """Hand an ending to the caller's future, once the running step of the loop is over."""


class Call(Future[Any]):
    """A future that knows its call, and takes a cancellation to the loop."""

    # Beside the future's own state: what to call, until the loop has taken it; then its turn,
    # until that has ended or is not wanted; and whether it has begun: of the loop's thread alone.
    # Whether it was cancelled: set by any thread, before it tells the loop.
    work: Work | None
    turn: CallTurn | None = None
    begun = False
    unwanted = False

    def __init__(self, line: Teller, work: Work) -> None:
        super().__init__()
        self._line = line
        self.work = work

    def cancel(self) -> bool:
        """Cancel the call if it has not begun."""
        cancelled = super().cancel()
        if cancelled:
            self.unwanted = True
            self._line.tell(self)
        return cancelled

    def begins(self) -> bool:
        """Begin, unless the call was cancelled; one that is shipped again has begun already."""
        if not self.begun:
            try:
                self.begun = self.set_running_or_notify_cancel()
            except RuntimeError:  # somebody else has ended it
                self.begun = False
            if not self.begun:
                self.turn = None
        return self.begun

    def end_after_fork(self, error: BaseException) -> None:
        """Fail in the child of a fork, where nothing is left that could end this.

        The locks may be held by threads that the child does not have, so they are made anew; the
        callbacks are those of the parent's call, and stay there.
        """
        self._condition = threading.Condition()
        self._waiters.clear()
        self._done_callbacks.clear()  # type: ignore[attr-defined]  # the same
        if not self.done():
            self.set_exception(error)
        elif self.unwanted and (self.work is not None or self.turn is not None):
            self.work = self.turn = None
            self.set_running_or_notify_cancel()  # the parent's loop had yet to do this


class CallTurn:
    """A turn whose ending goes to a call."""

    __slots__ = ("_pool", "_server", "call", "job")

    def __init__(self, call: Call, server: Lander, job: Shipment, pool: Canceller) -> None:
        self.call = call
        self.job = job
        self._server = server
        self._pool = pool

    def set_result(self, value: Any) -> None:
        """End with an answer."""
        self._server.land(self, value, None)

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """End with a failure; a future has one exception for all who ask, as everywhere."""
        self.set_exception(make_error())

    def set_exception(self, error: BaseException) -> None:
        """End with a failure that is made."""
        self._server.land(self, None, error)

    def cancel(self) -> bool:
        """End since the pool is left; a running call is stopped. False if it has ended."""
        if not self._pool.cancel_job(self.job):
            return False
        self.set_exception(PoolClosed("the executor ended before the call was done"))
        return True
