"""The pool's jobs: what the policy decides about, with what it takes to ship and to settle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hmz_mp.core.functions import Function
from hmz_mp.core.jobs import Job, JobState, Lane
from hmz_mp.core.turns import AsyncioTurn, Event, TrioTurn
from hmz_mp_worker.payload import Payload

__all__ = ["OnEvent", "Settings", "Shipment"]

OnEvent = Callable[[Any, Event], object]


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


class Shipment(Job):
    """A job with its function, its arguments' pickle, and the turn that waits for its end."""

    __slots__ = ("function", "item_id", "name", "on_event", "payload", "shipped_at", "turn")

    turn: AsyncioTurn | TrioTurn

    def __init__(
        self,
        id: int,  # noqa: A002  # a name
        lane: Lane,
        function: Function,
        payload: Payload,
        settings: Settings,
    ) -> None:
        # As `Job.__init__`, which is not called: one of these is made for every turn.
        self.id = id
        self.lane = lane
        self.timing = function.timing
        self.state = JobState.QUEUED
        self.attempts = self.losses = self.ticket = 0
        self.expected = 0.0
        self.worker = None
        self.stopping = None
        self.function = function
        self.payload = payload
        self.retries = settings.retries
        self.timeout = settings.timeout
        self.deadline = settings.deadline
        self.memory = settings.memory
        self.item_id = settings.item_id
        self.name = settings.name
        self.on_event = settings.on_event
        self.shipped_at = 0.0  # by the monotonic clock, the last time

    def describe(self) -> str:
        """Return what this turn does, for messages."""
        name = self.name or self.function.name
        return f"{name} for item {self.item_id!r}" if self.item_id is not None else name
