"""Dispatch: which lane's jobs go to which worker, and when.

Part of the policy, and as pure. It owns what is in flight: `dispatch` ships what can be shipped,
at gates and workers that have room, and `let_go` gives back what shipped jobs held. What becomes
of a job that was let go is the policy's.
"""

from __future__ import annotations

from collections.abc import Sequence

from hmz_mp.core.backoff import Backoff
from hmz_mp.core.commands import Command, Ship, Start
from hmz_mp.core.dispatch_queue import ReadyQueue
from hmz_mp.core.jobs import Job, JobState, Kind, Lane, Timing, Worker, WorkerState
from hmz_mp.core.lanes import WaitingLanes, head_of
from hmz_mp.core.roster import AHEAD_TIMEOUT, OVERHEAD_SECONDS, Roster
from hmz_mp.core.timers import Timers

__all__ = ["Dispatcher"]

_LEAVING = (WorkerState.RETIRING, WorkerState.GONE)
_SHIPPED, _DONE = JobState.SHIPPED, JobState.DONE


class Dispatcher:
    """Ships the jobs of one pool. Its roster, lanes and timers are the policy's too."""

    # The whole state: how many jobs are in lanes and in flight, the most that ever were in flight,
    # whether nothing begins beside what runs, and the last ticket.
    def __init__(
        self,
        roster: Roster,
        lanes: WaitingLanes,
        timers: Timers,
        backoff: Backoff,
        commands: list[Command],
    ) -> None:
        self.queued = 0
        self.running = 0
        self.widest = 0
        self.held = False
        self.last_ticket = 0
        self._roster = roster
        self._lanes = lanes
        self._timers = timers
        self._backoff = backoff
        self._commands = commands

    def dispatch(self, now: float) -> None:
        """Ship what can be shipped now, and start the workers that more could use."""
        lanes = self._lanes
        wakes = -1
        while lanes.wakes != wakes:  # a place that one kind passes on may be the other's
            wakes = lanes.wakes
            for kind, ready in lanes.ready.items():
                if ready:
                    self._dispatch(kind, ready, now)

    def _dispatch(self, kind: Kind, ready: ReadyQueue, now: float) -> None:
        lanes = self._lanes
        while not (self.held and self.running) and (lane := ready.pop()) is not None:
            job = head_of(lane)
            if job is None:
                lanes.pass_on(lane, now)
                lanes.pass_on_worker(lane)
                continue
            if lane.gates and (blocking := lanes.blocking(lane, now)) is not None:
                lanes.wait_for(lane, blocking, now)
                lanes.pass_on_worker(lane)
                continue
            worker = self._worker_for(lane, job)
            if worker is not None:
                self._commands.append(self._ship(lane, worker, now))
                if lane.jobs and not lane.serial:
                    ready.append(lane)
            elif lane.pinned is not None:
                lanes.wait_at(lane, lane.pinned, now)
            else:
                ready.append(lane, first=True)
                self._grow(kind, ready, now)
                return

    def _worker_for(self, lane: Lane, job: Job) -> Worker | None:
        """Return the worker to ship a job to, or ``None`` when it has to wait."""
        if lane.pinned is not None and lane.pinned.state in _LEAVING:
            lane.pinned = None
            lane.restarts += 1
        if lane.pinned is None:
            return self._roster.find(job)
        return lane.pinned if self._roster.has_room(lane.pinned, job) else None

    def _ship(self, lane: Lane, worker: Worker, now: float) -> Ship:
        """Ship a lane's first job, and as many behind it as may go to the same worker now."""
        lane.woken_by = None
        if lane.serial:
            self._pin(lane, worker)
        jobs: list[Job] = []
        queue, timing = lane.jobs, lane.jobs[0].timing
        expected = (timing.seconds or 0.0) + OVERHEAD_SECONDS
        room = 1 if lane.serial else max(1, self._roster.room(worker, timing))
        ticket = self.last_ticket
        while queue and len(jobs) < room:
            job = queue[0]
            if job.state is _DONE:
                queue.popleft()
                continue
            if jobs and not self._may_follow(job, timing, now):
                break
            queue.popleft()
            ticket += 1
            job.ticket = ticket
            job.state = _SHIPPED
            job.attempts += 1
            job.worker = worker
            job.expected = expected
            job.shipped_at = now
            if lane.gates:
                for gate in lane.gates:
                    gate.take(now)
            if job.timeout is not None:
                self._time(job, worker, now)
            worker.inflight[ticket] = job
            jobs.append(job)
        if lane.gates:
            self._backoff.began(lane)
        self.last_ticket = ticket
        self._roster.occupy(worker, len(jobs), expected * len(jobs))
        self.queued -= len(jobs)
        self.running += len(jobs)
        self.widest = max(self.widest, self.running)
        return Ship(worker.id, jobs)

    def _pin(self, lane: Lane, worker: Worker) -> None:
        lane.busy = True
        if lane.pinned is not worker:
            lane.pinned = worker
            worker.sessions += 1

    def _may_follow(self, job: Job, timing: Timing, now: float) -> bool:
        """Whether a job may be shipped behind others of its lane that take ``timing`` each."""
        return (
            job.timing is timing
            and (job.timeout is None or job.timeout >= AHEAD_TIMEOUT)
            and (not job.lane.gates or self._lanes.blocking(job.lane, now) is None)
        )

    def _time(self, job: Job, worker: Worker, now: float) -> None:
        """Start the clock of a job that is being shipped, unless it waits behind another."""
        worker.timed = True
        if job.timeout is not None and (worker.kind == "host" or not worker.inflight):
            self._timers.add(now + job.timeout, job, job.ticket, job.timeout)

    def _grow(self, kind: Kind, ready: ReadyQueue, now: float) -> None:
        """Start the workers that what is ready could use."""
        missing, starting = self._roster.missing(kind), self._roster.starting[kind]
        if missing <= 0 or self.queued <= starting:
            return
        wanted = 1 if kind == "host" else ready.runnable(missing + starting, now)
        for _ in range(min(missing, wanted - starting)):
            self._commands.append(Start(self._roster.start(kind).id, kind))

    # What shipped jobs hold.

    def let_go(self, jobs: Sequence[Job], worker: Worker, now: float) -> None:
        """Give back what shipped jobs held: their places in a worker, their gates, their lanes."""
        for job in jobs:
            job.worker = None
            if job.expected > 0:
                worker.expected -= job.expected
            lane = job.lane
            if lane.gates or lane.serial:
                if self._backoff.gates:
                    self._backoff.let_go(job)
                self._lanes.leave(lane, now)
        self.running -= len(jobs)

    def arm_head(self, worker: Worker, now: float) -> None:
        """Start the clock of the call that begins now that the one before it has answered."""
        if worker.kind == "call":
            job = next(iter(worker.inflight.values()))
            if job.timeout is not None:
                self._timers.add(now + job.timeout, job, job.ticket, job.timeout)

    def requeue(self, job: Job) -> None:
        """Put a job that was shipped back at the head of its lane."""
        if job.state is JobState.ABANDONED:
            job.state = JobState.DONE
            return
        job.state = JobState.QUEUED
        job.stopping = None
        job.ticket = 0
        self.queued += 1
        job.lane.jobs.appendleft(job)
        self._lanes.wake(job.lane, first=True)
