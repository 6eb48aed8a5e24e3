"""The lanes that could run now, by priority, each priority in turn."""

from __future__ import annotations

from bisect import insort
from collections import deque

from hmz_mp.core.jobs import Lane

__all__ = ["ReadyQueue"]


class ReadyQueue:
    """Lanes in the order in which they get their turn: the highest priority first."""

    __slots__ = ("_count", "_lanes", "_order")

    def __init__(self) -> None:
        self._lanes: dict[int, deque[Lane]] = {}
        self._order: list[int] = []  # the priorities ever used, negated, smallest first
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def append(self, lane: Lane, *, first: bool = False) -> None:
        """Put a lane in, behind those of its priority or before them."""
        lanes = self._lanes.get(-lane.priority)
        if lanes is None:
            lanes = self._lanes[-lane.priority] = deque()
            insort(self._order, -lane.priority)
        lane.place = self
        self._count += 1
        if first:
            lanes.appendleft(lane)
        else:
            lanes.append(lane)

    def pop(self) -> Lane | None:
        """Take the next lane out."""
        for key in self._order:
            lanes = self._lanes[key]
            if lanes:
                self._count -= 1
                lane = lanes.popleft()
                lane.place = None
                return lane
        return None

    def runnable(self, enough: int, now: float) -> int:
        """Return how many jobs of these lanes could run at once, counted no further than enough."""
        count = 0
        for lanes in self._lanes.values():
            for lane in lanes:
                rooms = [gate.room(now) for gate in lane.gates]
                known = [room for room in rooms if room is not None]
                count += min([1 if lane.serial else len(lane.jobs), *known])
                if count >= enough:
                    return count
        return count
