"""Where lanes wait: in the queue of those that could run now, or at a gate for a place.

Part of the policy, and as pure. A lane stands in one place at most; a freed place wakes one lane,
and a lane that does not take it passes it on. Whoever takes a lane out of where it stands clears
its ``place`` first.
"""

from __future__ import annotations

from hmz_mp.core.dispatch_queue import ReadyQueue
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, JobState, Kind, Lane, Worker
from hmz_mp.core.timers import Timers

__all__ = ["WaitingLanes"]

_DONE = JobState.DONE


class WaitingLanes:
    """The lanes of one pool that have jobs."""

    # The whole state: the lanes that could run now, the policy's timers, and how many lanes a
    # gate has let go so far.
    def __init__(self, timers: Timers) -> None:
        self.ready: dict[Kind, ReadyQueue] = {"call": ReadyQueue(), "host": ReadyQueue()}
        self._timers = timers
        self.wakes = 0

    def wake(self, lane: Lane, *, first: bool = False) -> None:
        """Let a lane that stands nowhere, and has jobs, compete again."""
        if lane.place is None and lane.jobs and not lane.busy:
            self.ready[lane.kind].append(lane, first=first)

    def leave(self, lane: Lane, now: float) -> None:
        """Give back what a job of a lane held: its gates, and a serial lane itself."""
        for gate in lane.gates:
            gate.used -= 1
            self.wake_gate(gate, now)
        if lane.serial:
            lane.busy = False
            self.wake(lane)

    # At a gate.

    def blocking(self, lane: Lane, now: float) -> Gate | None:
        """Return a gate of a lane's that has no place now, or ``None``."""
        for gate in lane.gates:
            if not gate.is_free(now):
                return gate
        return None

    def wait_for(self, lane: Lane, gate: Gate, now: float) -> None:
        """Have a lane wait at a gate, where who is woken in vain keeps its place."""
        lane.place = gate
        if lane.woken_by is gate:  # somebody was faster
            gate.waiting[lane.kind].appendleft(lane)
        else:
            gate.waiting[lane.kind].append(lane)
            self.pass_on(lane, now)
        lane.woken_by = None
        self._time(gate, now)

    def pass_on(self, lane: Lane, now: float) -> None:
        """Wake the next at the gate that woke a lane which does not take the place."""
        gate, lane.woken_by = lane.woken_by, None
        if gate is not None:
            self.wake_gate(gate, now)

    def wake_gate(self, gate: Gate, now: float) -> None:
        """Let a lane of each kind that waits for a gate compete again, if the gate has room."""
        for kind, waiting in gate.waiting.items():
            if not waiting:
                continue
            if not gate.is_free(now):
                self._time(gate, now)
                return
            lane = waiting.popleft()
            lane.place = None
            lane.woken_by = gate
            self.wakes += 1
            self.ready["host" if kind == "host" else "call"].append(lane)

    def wake_room(self, gate: Gate, now: float) -> None:
        """Let as many lanes that wait for a gate compete again as it has room for."""
        room = gate.room(now)
        waiting = sum(map(len, gate.waiting.values()))
        for _ in range(waiting if room is None else min(room, waiting)):
            self.wake_gate(gate, now)

    def _time(self, gate: Gate, now: float) -> None:
        """Have those that wait for a gate woken when the minute has passed."""
        time = gate.next_room(now)
        if time is not None and not gate.timed:
            gate.timed = True
            self._timers.add(time, gate, 0, None)

    def minute_passed(self, gate: Gate, now: float) -> None:
        """Wake those for whom time alone has made room."""
        gate.timed = False
        self.wake_room(gate, now)
        if any(gate.waiting.values()):
            self._time(gate, now)

    # At a worker: sessions that live there.

    def wait_at(self, lane: Lane, worker: Worker, now: float) -> None:
        """Have a session wait for room at its worker; the place that woke it is another's."""
        lane.place = worker
        worker.waiting.append(lane)
        self.pass_on(lane, now)

    def wake_next(self, worker: Worker) -> None:
        """Let one session that waits for its worker compete again."""
        lane = worker.waiting.popleft()
        lane.place = None
        self.wake(lane, first=True)

    def pass_on_worker(self, lane: Lane) -> None:
        """Wake the next session at the worker that a lane does not take, if it has nothing to do.

        One was woken for what the worker let go, and without anything to do it lets go no more.
        """
        worker = lane.pinned
        if worker is not None and worker.waiting and not worker.inflight:
            self.wake_next(worker)

    def wake_all(self, worker: Worker) -> None:
        """Let every session that waits for a worker compete again."""
        while worker.waiting:
            self.wake_next(worker)


def head_of(lane: Lane) -> Job | None:
    """Return a lane's first job, dropping those that ended while they were queued."""
    jobs = lane.jobs
    while jobs and jobs[0].state is _DONE:
        jobs.popleft()
    return jobs[0] if jobs else None
