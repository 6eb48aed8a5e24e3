"""A circuit breaker: when turns may begin again at a limit whose service was too busy.

Part of the policy, and as pure: times, tickets and random numbers are passed in. While nothing was
refused it admits everything. A refusal opens it: nothing begins until a time that is no earlier
than what the service asked for, then one turn, the probe, and the others when that has succeeded.
How many those are is its ``width``'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.core.width import Width

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LONGEST", "Breaker", "Busy"]

FIRST = 1.0  # seconds, of which the first pause is a random part
LONGEST = 60.0  # the same for late ones, beside what the service asks for


class Busy(NamedTuple):
    """What a failure says of the service: too busy, for so many seconds if it says that.

    ``again`` says that the turn is to be put back, and tried again later.
    """

    retry_after: float | None = None
    again: bool = True


class Breaker:
    """What one limit knows of its service."""

    # The whole state: until when nothing may begin (`None` once it is closed), whether a probe is
    # in flight, how many openings in a row there were, the last ticket that was shipped before the
    # last of them, and how many turns the service bears.
    __slots__ = ("_random", "_ticket", "probing", "streak", "until", "width")

    def __init__(self, random: Callable[[], float]) -> None:
        self.until: float | None = None
        self.probing = False
        self.streak = 0
        self.width = Width()
        self._ticket = 0
        self._random = random

    def __repr__(self) -> str:
        state = "closed" if self.until is None else f"open until {self.until:g}"
        return f"<Breaker {state}, width {self.width.bound:g}>"

    @property
    def is_healthy(self) -> bool:
        """Whether it bounds nothing, so that successes are of no interest."""
        return self.until is None and not self.width.bound

    def room(self, used: int, now: float) -> int | None:
        """Return how many turns may begin beside ``used``; ``None`` is any number."""
        if self.until is not None:
            return int(not self.probing and now >= self.until)
        width = self.width
        return width.room(used) if width.bound else None

    def took(self) -> None:
        """Take note that a turn begins."""
        self.probing = self.until is not None

    def let_go(self, ticket: int) -> None:
        """Take note that a turn is not in flight any more, however it ended."""
        if self.is_probe(ticket):
            self.probing = False

    def is_probe(self, ticket: int) -> bool:
        """Whether a turn that ends was begun after the last opening, which is not over."""
        return self.until is not None and ticket > self._ticket

    def succeeded(
        self, ticket: int, seconds: float | None, used: int, widest: int, now: float
    ) -> None:
        """Take note that the service was not too busy for a turn, as in `Width.served`.

        Without ``seconds`` the turn has failed for another reason, which widens nothing.
        """
        if self.is_probe(ticket):
            self.probing = False
            self.streak = 0
            if self.until is not None and now >= self.until:  # a late refusal may have moved it
                self.until = None
        elif self.until is None and seconds is not None:
            self.width.served(ticket, seconds, used, widest)

    def refused(self, ticket: int, last: int, busy: Busy, used: int, now: float) -> float:
        """Take note that a turn was refused; return when the next may begin at the earliest.

        ``last`` is the last ticket so far, ``used`` how many turns were in flight with this one.
        """
        asked = max(0.0, busy.retry_after or 0.0)
        if self.until is None or self.is_probe(ticket):
            pause = self._random() * min(LONGEST, FIRST * 2.0 ** min(self.streak, 30))
            self.streak += 1
            self.width.narrow(ticket, last, used, alone=self.until is not None)
            told = self.until or 0.0  # by one that began before, while the probe was in flight
            self.until = max(told, now + asked + pause)
            self._ticket = last
            self.probing = False
        else:  # it began before the last opening, and says what is known
            self.until = max(self.until, now + asked)
        return self.until
