"""Gates: how many turns may be in flight, by name, and who waits for a place.

A gate is the policy's form of every `at_once`: the pool's, a batch's, a limit's. It belongs to
the policy and knows nothing of clocks, processes or futures.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hmz_mp.core.width import START

if TYPE_CHECKING:
    from hmz_mp.core.breaker import Breaker
    from hmz_mp.core.jobs import Lane

__all__ = ["MINUTE", "Gate"]

MINUTE = 60.0


class Gate:
    """A bound on turns in flight: ``capacity`` at once (0: any), ``per_minute`` begun (0: any).

    A limit's has a ``breaker`` too, by which it backs off when its service is too busy.
    """

    __slots__ = (
        *("breaker", "capacity", "name", "per_minute", "starts", "timed", "used", "waiting"),
        "widest",
    )

    def __init__(
        self, name: str, capacity: int = 0, per_minute: int = 0, breaker: Breaker | None = None
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.per_minute = per_minute
        self.breaker = breaker
        self.used = 0
        self.widest = 0
        # By kind of worker: a lane that got a place here, and waits for a worker to start, holds
        # up none that needs another kind.
        self.waiting: dict[str, deque[Lane]] = {"call": deque(), "host": deque()}
        self.starts: deque[float] = deque()  # when the last minute's turns began
        self.timed = False  # whether a timer will wake those that wait for the minute to pass

    def __repr__(self) -> str:
        return f"<Gate {self.name} {self.used}/{self.capacity or 'any'}>"

    @property
    def may_bound(self) -> bool:
        """Whether it can ever hold a turn up."""
        return bool(self.capacity or self.per_minute or self.breaker is not None)

    def adapt(self, start: int = START) -> None:
        """Have it find out by itself how many turns may be in flight, from ``start``."""
        if self.breaker is not None:
            self.breaker.width.adapt(start)

    @property
    def adapts(self) -> bool:
        """Whether it finds out by itself how many turns may be in flight."""
        return self.breaker is not None and bool(self.breaker.width.ceiling)

    def room(self, now: float) -> int | None:
        """Return how many more turns may begin now; ``None`` means any number."""
        rooms = []
        if self.capacity:
            rooms.append(self.capacity - self.used)
        if self.per_minute:
            while self.starts and self.starts[0] + MINUTE <= now:
                self.starts.popleft()
            rooms.append(self.per_minute - len(self.starts))
        if self.breaker is not None and (room := self.breaker.room(self.used, now)) is not None:
            rooms.append(room)
        return max(0, min(rooms)) if rooms else None

    def next_room(self, now: float) -> float | None:
        """Return when time alone will make room, if that is what is missing."""
        breaker = self.breaker
        if breaker is not None and breaker.until is not None and now < breaker.until:
            return breaker.until
        if self.per_minute and self.room(now) == 0 and len(self.starts) >= self.per_minute:
            return self.starts[0] + MINUTE
        return None

    def is_free(self, now: float) -> bool:
        """Whether one more turn may begin now."""
        if self.capacity and self.used >= self.capacity:
            return False
        if self.breaker is not None and self.breaker.room(self.used, now) == 0:
            return False
        return not self.per_minute or self.room(now) != 0

    def count_waiting(self) -> int:
        """Return how many jobs stand in the lanes that wait here."""
        lanes = [lane for waiting in self.waiting.values() for lane in waiting]
        return sum(1 if lane.serial else len(lane.jobs) for lane in lanes)

    def take(self, now: float) -> None:
        """Count one more turn in flight."""
        self.used += 1
        if self.used > self.widest:
            self.widest = self.used
        if self.breaker is not None:
            self.breaker.took()
        if self.per_minute:
            self.starts.append(now)
