"""An asyncio loop whose time is virtual: where it would wait, its clock moves on at once.

What takes an hour there takes a moment here, and the same each time. A loop that would wait for
ever, or beyond its horizon, fails its test instead.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count

import pytest

import hmz_mp.core.coordinator
import hmz_mp.core.loop
import hmz_mp.core.watch
from hmz_mp.core.loop import Driver, Handle

__all__ = ["Agenda", "VirtualClock", "VirtualLoop", "the_pools_clock"]

_HORIZON = 24 * 3600.0  # seconds that no test's history lasts


class VirtualClock:
    """Tells a time that somebody moves on."""

    def __init__(self) -> None:
        self.now = self.began = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on. Raises `AssertionError` beyond the horizon."""
        self.now += seconds
        assert self.now - self.began < _HORIZON, "what is waited for does not come in a day"


class _Selector(selectors.DefaultSelector):
    """Waits for nothing: it moves the clock on to when the loop has something to do."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        assert timeout is not None, "nothing is due any more: this would wait for ever"
        self._clock.advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        """Return the virtual time."""
        return self.clock.now

    def advance(self, seconds: float) -> None:
        """Run for so long, while nobody runs it. 0: what is ready now, and what comes of it."""

        async def pass_time() -> None:
            for _ in range(10):
                await asyncio.sleep(0)
            if seconds:
                await asyncio.sleep(seconds)

        self.run_until_complete(pass_time())


@contextmanager
def the_pools_clock(clock: VirtualClock) -> Iterator[None]:
    """Have pools that are entered and used meanwhile go by a clock."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (hmz_mp.core.coordinator, hmz_mp.core.watch, hmz_mp.core.loop):
            patch.setattr(module, "monotonic", clock)
        yield


class Agenda:
    """What happens when: each thing at its time, those of one time in the order of their entry.

    ``after`` is called once all that is due has happened.
    """

    # The whole state: a heap of what is due, and the loop's timer for the first of it.
    def __init__(
        self, driver: Driver, clock: Callable[[], float], after: Callable[[], None]
    ) -> None:
        self.clock = clock
        self._driver = driver
        self._after = after
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._timer: Handle | None = None
        self._timer_time = 0.0
        self._ticking = False

    def enter(
        self, seconds: float, action: Callable[[], None], *, not_before: float = 0.0
    ) -> float:
        """Have something happen in so many seconds, or later; return when."""
        time = max(not_before, self.clock() + seconds)
        heappush(self._due, (time, next(self._order), action))
        self._arm()
        return time

    def hurry(self) -> None:
        """Have the next thing happen now."""
        heappop(self._due)[2]()

    def clear(self) -> None:
        """Have nothing more happen."""
        self._due.clear()
        self._arm()

    def _arm(self) -> None:
        if self._ticking:
            return
        if self._timer is not None and (not self._due or self._due[0][0] < self._timer_time):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._due:
            self._timer_time = self._due[0][0]
            self._timer = self._driver.call_at(self._timer_time, self._tick)

    def _tick(self) -> None:
        self._timer, self._ticking = None, True
        try:
            while self._due and self._due[0][0] <= self.clock():
                self.hurry()
            self._after()
        finally:
            self._ticking = False
            self._arm()
