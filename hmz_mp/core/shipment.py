"""The pool's jobs: what the policy decides about, with what it takes to ship and to settle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hmz_mp.core.breaker import Busy
from hmz_mp.core.functions import Function
from hmz_mp.core.jobs import Ending, Job
from hmz_mp.core.late import LatePayload
from hmz_mp.core.outcomes import failure_of
from hmz_mp.core.turns import Event, guarded
from hmz_mp_worker.payload import Payload

__all__ = ["NO_SETTINGS", "IsBusy", "OnEvent", "RetryIf", "Settings", "Shipment"]

OnEvent = Callable[[Any, Event], object]
IsBusy = Callable[[BaseException], Busy | None]
RetryIf = Callable[[BaseException], bool]


class Settings(msgspec.Struct, frozen=True):
    """How turns are run: what `Pool.options` takes, but for what becomes a gate."""

    timeout: float | None = None
    deadline: float | None = None
    retries: int = 0
    memory: int | None = None
    priority: int = 0
    item_id: str | None = None
    name: str | None = None
    on_event: OnEvent | None = None
    is_busy: IsBusy | None = None
    retry_if: RetryIf | None = None


NO_SETTINGS = Settings()


class Shipment(Job, eq=False, gc=False, kw_only=True):
    """A job with its function, its arguments, and how it ran.

    ``payload`` is the pickle of the positional arguments where there is nothing else to ship, and
    a `Payload` of both kinds of arguments otherwise, or what makes one when it is shipped.
    """

    function: Function
    payload: bytes | Payload | LatePayload = b""
    settings: Settings = NO_SETTINGS
    pid: int | None = None  # these four once it has run: as in `turns.Account`
    began: float = 0.0
    seconds: float | None = None
    output: bytes = b""

    def configure(self, settings: Settings) -> None:
        """Take on settings that are not the default ones."""
        self.settings = settings
        self.retries = settings.retries
        self.timeout = settings.timeout
        self.deadline = settings.deadline
        self.memory = settings.memory

    def busy(self, _ending: Ending) -> Busy | None:
        """Return what a failure says of its service's being too busy, if it does."""
        is_busy = self.settings.is_busy
        if is_busy is not None:
            with guarded("is_busy"):  # the caller's code
                return is_busy(failure_of(_ending.data, self.function.name))
        return None

    def may_retry(self, _ending: Ending) -> bool:
        """Whether a failure is one that another try may not have."""
        retry_if = self.settings.retry_if
        if retry_if is not None:
            with guarded("retry_if"):  # the caller's code
                return retry_if(failure_of(_ending.data, self.function.name))
        return True

    def settle(self, pid: int | None, began: float, seconds: float, output: bytes) -> None:
        """Take note of how it ran, and let its arguments go: its turn may be kept for long."""
        self.payload = b""
        self.pid = pid
        self.began = began
        self.seconds = seconds
        self.output = output

    def describe(self) -> str:
        """Return what this turn does, for messages."""
        name, item_id = self.settings.name or self.function.name, self.settings.item_id
        return f"{name} for item {item_id!r}" if item_id is not None else name
