"""How many turns a service bears at once, found out by trying: more while it serves, half as many
when it was too busy.

Part of the policy, and as pure. A limit's breaker has one. It bounds nothing until the service was
too busy once; after `adapt` it always does, between one turn and a ceiling.

The width grows as a TCP connection's window does: by one for each turn that was served until the
service was first too busy, or slow; then by one for each round, which is as many turns as there
are at once. It is halved once for all turns that were in flight together. A round that took twice
as long as rounds do usually widens nothing: what comes on top only waits elsewhere.
"""

from __future__ import annotations

__all__ = ["CEILING", "START", "Width"]

START = 8  # turns at once, to begin with
CEILING = 64  # the most that are tried
SLOW = 2.0  # times as long as usual is out of proportion
_QUICKER = 0.5  # how much of a round that was quicker than usual counts at once as usual,
_SLOWER = 0.1  # and of one that was slower: longer turns are usual too after some rounds


class Width:
    """What is known of one service's width."""

    # The whole state: the bound now (0: none) and its ceiling (0: it does not adapt); whether it
    # grows by each turn; the last ticket that was shipped before it was last narrowed; and of the
    # round in progress its length, turns and seconds, whether the last one was slow, and what a
    # turn usually takes.
    __slots__ = (
        *("_grows_fast", "_length", "_seconds", "_slow", "_ticket", "_turns", "_usual"),
        *("bound", "ceiling"),
    )

    def __init__(self) -> None:
        self.bound = 0.0
        self.ceiling = 0
        self._grows_fast = False
        self._ticket = 0
        self._length = 0
        self._turns = 0
        self._seconds = 0.0
        self._slow = False
        self._usual = 0.0

    def __repr__(self) -> str:
        return f"<Width {self.bound:g} of {self.ceiling or 'any'}>"

    def adapt(self, start: int = START, ceiling: int = CEILING) -> None:
        """Bound from now on, from ``start`` to ``ceiling``, if it does not do so already."""
        if not self.ceiling:
            self.ceiling = max(1, ceiling)
            self._grows_fast = not self.bound
            self.bound = float(min(self.bound or max(1, start), self.ceiling))
            self._begin_round()

    def room(self, used: int) -> int | None:
        """Return how many turns may begin beside ``used``; ``None`` is any number."""
        return max(0, int(self.bound) - used) if self.bound else None

    def served(self, ticket: int, seconds: float, used: int, widest: int) -> None:
        """Take note that a turn was served in so many seconds, being one of ``used``.

        ``widest`` is what was ever in flight: what bounds more than that need not bound.
        """
        if not self.bound or ticket <= self._ticket:
            return  # it began when the width was another
        if not self.ceiling:
            self.bound += 1 / self.bound
            if self.bound > widest:
                self.bound = 0.0
            return
        self._note(seconds)
        if not self._slow and 2 * used >= self.bound:  # else it is not what holds turns up
            grown = self.bound + (1.0 if self._grows_fast else 1 / self.bound)
            self.bound = min(grown, float(self.ceiling))

    def narrow(self, ticket: int, last: int, used: int, *, alone: bool = False) -> None:
        """Halve what is in flight, as a turn of ``used`` was refused; once for all of those.

        ``last`` is the last ticket so far. That ``used`` is one means nothing if it was ``alone``
        by intent.
        """
        if ticket <= self._ticket:
            return
        before = min(self.bound or used, used) if not alone else self.bound or used
        self.bound = float(max(1, int(before) // 2))
        self._ticket = last
        self._grows_fast = False
        self._slow = False
        self._begin_round()

    def _note(self, seconds: float) -> None:
        """Count a turn in its round, and judge the round by its end."""
        self._turns += 1
        self._seconds += seconds
        if self._turns < self._length:
            return
        mean = self._seconds / self._turns
        usual = self._usual or mean
        self._slow = mean > SLOW * usual
        self._usual = usual + (_QUICKER if mean < usual else _SLOWER) * (mean - usual)
        if self._slow:
            self._grows_fast = False
        self._begin_round()

    def _begin_round(self) -> None:
        self._length = int(self.bound)
        self._turns = 0
        self._seconds = 0.0
