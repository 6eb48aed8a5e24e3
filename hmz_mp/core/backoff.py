"""Turns put back because their service was too busy: which limits that closes, and opens again.

Part of the policy, and as pure. It owns which limits are bounded by what their service said; what
each of them knows is in ``breaker``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.core.breaker import Busy
    from hmz_mp.core.gates import Gate
    from hmz_mp.core.jobs import Job, Lane
    from hmz_mp.core.lanes import WaitingLanes

__all__ = ["SETBACKS", "Backoff"]

SETBACKS = 6  # times that a turn is put back before it fails


class Backoff:
    """The limits of one pool that are not healthy."""

    # The whole state: those limits' gates, of which the order means nothing. Those that adapt
    # their width are among them while anything is in flight there.
    def __init__(self, lanes: WaitingLanes) -> None:
        self.gates: dict[Gate, None] = {}
        self._lanes = lanes

    def began(self, lane: Lane) -> None:
        """Take note that jobs of a lane were shipped."""
        for gate in lane.gates:
            if gate.adapts:
                self.gates[gate] = None

    def let_go(self, job: Job) -> None:
        """Take note that a job is not in flight any more, before its places are given back."""
        for gate in job.lane.gates:
            breaker = gate.breaker
            if breaker is not None:
                breaker.let_go(job.ticket)
                if gate.used == 1 and breaker.until is None and breaker.width.ceiling:
                    self.gates.pop(gate, None)

    def served(self, job: Job, seconds: float | None, now: float) -> None:
        """Take note that a job's service was not too busy, after so many seconds if it is done."""
        for gate in job.lane.gates:
            breaker = gate.breaker
            if breaker is None or gate not in self.gates:
                continue
            breaker.succeeded(job.ticket, seconds, gate.used, gate.widest, now)
            idle = gate.adapts and not gate.used and breaker.until is None
            if idle or breaker.is_healthy:
                del self.gates[gate]
            self._lanes.wake_room(gate, now)

    def refused(self, job: Job, last: int, busy: Busy, now: float) -> float | None:
        """Close the limits of a job that was refused, after its places were given back.

        Returns when it may be tried again at the earliest, or ``None`` if it is not to be.
        """
        times = []
        for gate in job.lane.gates:
            used = gate.used + 1
            if gate.breaker is not None and busy.again:
                self.gates[gate] = None
                times.append(gate.breaker.refused(job.ticket, last, busy, used, now))
            elif gate.adapts and gate.breaker is not None:
                gate.breaker.width.narrow(job.ticket, last, used)
        job.setbacks += 1
        return max(times, default=None)

    def is_hopeless(self, job: Job) -> bool:
        """Whether a job that was refused is not to be tried again.

        It was refused often enough, or every probe was, of whatever jobs, so often in a row.
        """
        streaks = [gate.breaker.streak for gate in job.lane.gates if gate.breaker is not None]
        return max(job.setbacks, *streaks) > SETBACKS
