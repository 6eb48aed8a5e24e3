"""A submitted call as a history knows it: whether what becomes of it is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from hmz_mp.core.endings import LOSSES
from hmz_mp.core.jobs import Kind
from hmz_mp.core.stopping import HOST_GRACE
from hmz_mp.core.turns import Turn
from hmz_mp.errors import TurnTimeout, WorkerDied, WorkerStartFailed

__all__ = ["LOOSE", "Call", "How", "Run"]

How = Literal[
    "answers",
    "raises",
    "raises once",
    "dies",
    "hangs",
    "hangs once",  # and raises when it is tried again
    "hears nothing",
    "refused",
    "refused twice",
]
LOOSE = 1e-6  # seconds by which two times that are the same may differ
_STOPPING = 0.1  # seconds that it takes to stop a call, by looking again and again, at most


class Run:
    """One time that a call ran. ``ended`` says how: "" while it does."""

    def __init__(self, worker: int, began: float) -> None:
        self.worker = worker
        self.began = began
        self.ended = ""


class Call:
    """One submitted call: what it is to do, under which settings, and what became of it."""

    def __init__(
        self, number: int, kind: Kind, how: How, groups: Sequence[str], now: float
    ) -> None:
        self.number = number
        self.kind: Kind = kind
        self.how: How = how
        self.groups = groups  # what it is in whose width is bounded; a session has one at a time
        self.submitted = now
        self.retries = 0
        self.timeout: float | None = None
        self.deadline: float | None = None
        self.turn: Turn
        self.ends = 0
        self.was_cancelled = False
        self.cancelled = math.inf  # when
        self.shipped: list[float] = []
        self.runs: list[Run] = []
        self.failures = 0  # that were heard
        self.blamed = 0  # workers that ended, by this call as far as is known
        self.lost = 0  # workers that ended before it began, and nobody is to blame

    def wrong(self, now: float, broken: bool) -> str:
        """Return what is wrong with how it ended, or an empty string."""
        if self.is_late(now):
            return "its deadline has passed long ago"
        if self.turn.cancelled():
            return "" if self.was_cancelled else "nobody cancelled it"
        error = self.turn.exception()
        last = self._last()
        if error is None:
            right = self.turn.result() == (self.number, len(self.runs)) and last == "answered"
            return "" if right else f"its answer is {self.turn.result()}"
        if isinstance(error, WorkerStartFailed):
            return "" if broken else "workers could be started"
        tries = self.tries()
        late = self.deadline is not None and now >= self.submitted + self.deadline - LOOSE
        spent = tries > self.retries or late
        if isinstance(error, WorkerDied):
            right = (self.blamed > 0 and spent) or self.lost >= LOSSES
            return "" if right else "no worker ended by it"
        if isinstance(error, TurnTimeout):
            return self._wrong_time(error, now)
        if isinstance(error, LookupError):
            right = last == "raised" and spent and error.args == (self.number,)
            return "" if right else f"it was tried {tries} times"
        if isinstance(error, ConnectionRefusedError):  # and not put back, or often enough
            right = last == "refused" and (spent or self.is_put_back())
            return "" if right else f"it was tried {tries} times"
        return f"it raised {error!r}"

    def _wrong_time(self, error: TurnTimeout, now: float) -> str:
        if error.clock == "deadline":
            right = self.deadline is not None and now >= self.submitted + self.deadline - LOOSE
        else:
            begun = self.shipped[-1] if self.shipped else now
            right = self.timeout is not None and now >= begun + self.timeout - LOOSE
        return "" if right else "there was time left"

    def _last(self) -> str:
        """Return how its last run ended; nothing if there was none."""
        return self.runs[-1].ended if self.runs else ""

    def tries(self) -> int:
        """Return how often it was tried in vain; a host's turn that is stopped answers."""
        return self.blamed + self.failures

    def is_put_back(self) -> bool:
        """Whether its last run failed as its service is too busy, which is no try."""
        return "careful" in self.groups and self._last() == "refused"

    def may_begin(self) -> bool:
        """Whether it is right that it runs now: it may be tried, or is about to be stopped."""
        if not self.turn_is_done():
            return self.tries() <= self.retries
        return self.turn.cancelled() or isinstance(self.turn.exception(), WorkerStartFailed)

    def wrong_length(self, now: float) -> str:
        """Return what is wrong with how long its last run has taken, or an empty string."""
        until = min(
            self.cancelled,
            self.runs[-1].began + (math.inf if self.timeout is None else self.timeout),
            self.submitted + (math.inf if self.deadline is None else self.deadline),
        )
        late = now - max(until, self.runs[-1].began)
        grace = _STOPPING if self.kind == "call" else HOST_GRACE + _STOPPING
        return f"it is stopped {late} s too late" if late > grace else ""

    def is_late(self, now: float) -> bool:
        """Whether it should have ended by its deadline."""
        if self.deadline is None:
            return False
        return now > self.submitted + self.deadline + HOST_GRACE + _STOPPING

    def may_be_stopped(self) -> bool:
        """Whether somebody can want it stopped."""
        return self.turn_is_done() or self.timeout is not None or self.deadline is not None

    def turn_is_done(self) -> bool:
        """Whether its turn has ended; while it is submitted there is none."""
        return hasattr(self, "turn") and self.turn.done()

    def __repr__(self) -> str:
        runs = ", ".join(f"{run.worker}: {run.ended or 'runs'}" for run in self.runs)
        settings = f"retries={self.retries} timeout={self.timeout} deadline={self.deadline}"
        return f"<Call {self.number} {self.kind} {self.how} {settings} [{runs}]>"
