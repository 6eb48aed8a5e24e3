"""Turns put back because their service was too busy: which limits that closes, and opens again.

Part of the policy, and as pure. It owns which limits are bounded by what their service said; what
each of them knows is in ``breaker``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.core.breaker import Busy
    from hmz_mp.core.gates import Gate
    from hmz_mp.core.jobs import Job
    from hmz_mp.core.lanes import WaitingLanes

__all__ = ["SETBACKS", "Backoff"]

SETBACKS = 6  # times that a turn is put back before it fails


class Backoff:
    """The limits of one pool that are not healthy."""

    # The whole state: those limits' gates, of which the order means nothing.
    def __init__(self, lanes: WaitingLanes) -> None:
        self.gates: dict[Gate, None] = {}
        self._lanes = lanes

    def let_go(self, job: Job) -> None:
        """Take note that a job is not in flight any more, before its places are given back."""
        for gate in job.lane.gates:
            if gate.breaker is not None:
                gate.breaker.let_go(job.ticket)

    def served(self, job: Job, now: float) -> None:
        """Take note that a job's service has answered it."""
        for gate in job.lane.gates:
            breaker = gate.breaker
            if breaker is None or gate not in self.gates:
                continue
            breaker.succeeded(job.ticket, now, gate.widest)
            if breaker.is_healthy:
                del self.gates[gate]
            self._lanes.wake_room(gate, now)

    def refused(self, job: Job, last: int, busy: Busy, now: float) -> float | None:
        """Close the limits of a job that was refused, after its places were given back.

        Returns when it may be tried again at the earliest, or ``None`` if it has no limit.
        """
        times = []
        for gate in job.lane.gates:
            if gate.breaker is not None:
                self.gates[gate] = None
                used = gate.used + 1
                times.append(gate.breaker.refused(job.ticket, last, busy, used, now))
        job.setbacks += 1
        return max(times, default=None)

    def is_hopeless(self, job: Job) -> bool:
        """Whether a job that was refused is not to be tried again.

        It was refused often enough, or every probe was, of whatever jobs, so often in a row.
        """
        streaks = [gate.breaker.streak for gate in job.lane.gates if gate.breaker is not None]
        return max(job.setbacks, *streaks) > SETBACKS
