"""The policy: what becomes of each job. A value, without I/O, clock or loop.

Each method is an event, with the time at which it happened; what has to be done about it is
appended to ``commands``, for the pool to carry out. Every job ends exactly once: `answered`
returns it, or a `Fail` names it, or `cancel` returned True for it. No more jobs are in flight
than any gate allows; a serial lane has one, and they begin in the order of submission.

Which job goes to which worker, and when, is its ``dispatcher``'s; how a call is stopped, and what
becomes of a job that was let go, ``stopping``'s and ``endings``'. Work per event is constant,
amortised: a freed place wakes one lane, a lane stands in one queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from hmz_mp.core.backoff import Backoff
from hmz_mp.core.commands import Command, Fail, Retire
from hmz_mp.core.dispatcher import Dispatcher
from hmz_mp.core.endings import Endings
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Ending, Job, JobState, Kind, Lane, Worker, WorkerState
from hmz_mp.core.lanes import WaitingLanes
from hmz_mp.core.roster import Roster
from hmz_mp.core.stopping import LOOK_AGAIN, Stopping
from hmz_mp.core.timers import Timers
from hmz_mp.errors import TurnTimeout, WorkerDied

__all__ = ["Policy"]

_OTHER: dict[Kind, Kind] = {"call": "host", "host": "call"}
_SHIPPED, _DONE = JobState.SHIPPED, JobState.DONE


class Policy:
    """Decides for one pool."""

    # The whole state: what is to be done; the roster of workers, the lanes that could run now,
    # timers, the limits that back off; and in its parts what is in flight, and counters.
    def __init__(
        self, call_workers: int, *, turns_per_worker: int = 0, idle_timeout: float = 60.0
    ) -> None:
        self.commands: list[Command] = []  # one list, for all parts
        self.roster = Roster(
            call_workers, turns_per_worker=turns_per_worker, idle_timeout=idle_timeout
        )
        self.timers = Timers()
        self.lanes = WaitingLanes(self.timers)
        self.backoff = Backoff(self.lanes)
        self._dispatcher = Dispatcher(
            self.roster, self.lanes, self.timers, self.backoff, self.commands
        )
        self._endings = Endings(self._dispatcher, self.backoff, self.commands)
        self._stopping = Stopping(self.roster, self.timers, self.commands)

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs ended how, and how many were tried again."""
        return self._endings.counts

    def take_commands(self) -> list[Command]:
        """Return what is to be done now, in order, and forget it."""
        commands = self.commands[:]
        self.commands.clear()
        return commands

    @property
    def queued(self) -> int:
        """How many jobs are in lanes."""
        return self._dispatcher.queued

    @property
    def running(self) -> int:
        """How many jobs are in flight."""
        return self._dispatcher.running

    @property
    def widest(self) -> int:
        """The most jobs that were ever in flight."""
        return self._dispatcher.widest

    @property
    def held(self) -> bool:
        """Whether nothing begins beside what runs."""
        return self._dispatcher.held

    def dispatch(self, now: float) -> None:
        """Ship what can be shipped now."""
        self._dispatcher.dispatch(now)

    # Events from the caller.

    def submit(self, job: Job, now: float) -> None:
        """Queue a job in its lane."""
        lane = job.lane
        lane.jobs.append(job)
        self._dispatcher.queued += 1
        if lane.place is None and not lane.busy:
            self.lanes.ready[lane.kind].append(lane)
        if job.deadline is not None:
            self.timers.add(now + job.deadline, job, 0, job.deadline)

    def refuse(self, job: Job) -> None:
        """Count a job that failed before it could be queued."""
        self._endings.end(job, "failed")

    def cancel(self, job: Job, now: float) -> bool:
        """End a job for its caller; return False if it has ended already."""
        if job.state is JobState.QUEUED:
            self._endings.end(job, "cancelled")  # it stays in its lane, and is passed over there
            self._dispatcher.queued -= 1
        elif job.state is JobState.SHIPPED:
            job.state = JobState.ABANDONED
            self._endings.counts["cancelled"] += 1
            self._stopping.stop(job, now)
        else:
            return False
        return True

    # Events from workers. Each names a worker; one that is gone already is passed over.

    def ready(self, worker_id: int, now: float) -> None:
        """Take note that a worker is set up."""
        worker = self.roster.workers.get(worker_id)
        if worker is not None and worker.state is WorkerState.STARTING:
            self.roster.started(worker)
            self._rest(worker, now)

    def answered(self, worker_id: int, endings: Sequence[Ending], now: float) -> list[Job | None]:
        """Return the job that each answer ends, or ``None`` where it ends none (any more)."""
        worker = self.roster.workers.get(worker_id)
        if worker is None:
            return [None] * len(endings)
        inflight = worker.inflight
        found = [inflight.pop(ending.ticket, None) for ending in endings]
        known = [job for job in found if job is not None]
        if not known:
            return found
        worker.stalled = False
        if self.backoff.gates:
            self._endings.note_served(found, endings, now)
        self._dispatcher.let_go(known, worker, now)
        self._relieve(worker, len(known), now)
        counts = self._endings.counts
        timing, seconds, count = known[0].timing, 0.0, 0  # of successive calls of one function
        for at, (job, ending) in enumerate(zip(found, endings, strict=True)):
            if job is None:
                continue
            if not ending.ok or job.state is not _SHIPPED:
                if not self._endings.ends_badly(job, ending, now):
                    found[at] = None
                continue
            job.state = _DONE
            counts["done"] += 1
            if job.timing is not timing:
                timing.note(seconds, count)
                timing, seconds, count = job.timing, 0.0, 0
            seconds += ending.seconds
            count += 1
        timing.note(seconds, count)
        return found

    def gave_back(self, worker_id: int, tickets: list[int], running: int, now: float) -> None:
        """Take back calls that a worker has not begun, since ``running`` takes long there."""
        worker = self.roster.workers.get(worker_id)
        if worker is None:
            return
        worker.stalled = True
        for ticket in reversed(tickets):
            job = worker.inflight.pop(ticket, None)
            if job is not None:
                job.attempts -= 1
                worker.served -= 1
                self._dispatcher.let_go([job], worker, now)
                self._dispatcher.requeue(job)
        self._relieve(worker, len(tickets), now)
        job = worker.inflight.get(running)
        if job is not None and job.unwanted:
            self._stopping.stop(job, now)

    def missed(self, worker_id: int, now: float) -> None:
        """Take note that a conditional kill found something else running: its answer comes."""
        worker = self.roster.workers.get(worker_id)
        if worker is None or worker.killing is None:
            return
        ticket, worker.killing = worker.killing, None
        self.roster.spare(worker)
        if not worker.inflight:
            self._rest(worker, now)
        self.lanes.wake_all(worker)
        for job in worker.inflight.values():  # of these some were not to be stopped while it died
            if job.ticket == ticket or job.unwanted:
                self.timers.add(now + LOOK_AGAIN, job, job.ticket, None)

    def died(self, worker_id: int, running: int, error: WorkerDied, now: float) -> None:
        """Take note of a worker's end. ``running`` is the ticket it ran (0: none; a host: all)."""
        worker = self.roster.workers.get(worker_id)
        if worker is None:
            return
        self.roster.remove(worker)
        blamed = running in worker.inflight
        lost = list(worker.inflight.values())
        worker.inflight.clear()
        for job in reversed(lost):  # each goes back before the one that came after it
            ticket = job.ticket
            self._dispatcher.let_go([job], worker, now)
            if job.state is JobState.ABANDONED:
                job.state = _DONE
            elif job.stopping is not None or ticket == running or worker.kind == "host":
                self._endings.fail(job, job.stopping or error)
            else:
                self._endings.lose(job, error, blamed)
        self.lanes.wake_all(worker)

    def end_session(self, lane: Lane) -> None:
        """Take note that a session will submit no more; its worker may retire when idle."""
        if lane.pinned is not None:
            self.roster.release(lane.pinned)
            lane.pinned = None

    # Time.

    def tick(self, now: float) -> None:
        """Do what is due."""
        for entry in self.timers.due(now):
            if isinstance(entry.about, Gate):
                self.lanes.minute_passed(entry.about, now)
            else:
                self._due(entry.about, entry.ticket, entry.seconds, now)
        for worker in self.roster.tired(now):
            self._retire(worker)

    def next_wake(self) -> float | None:
        """Return when `tick` has something to do next, or ``None``."""
        times = (self.timers.next_time(), self.roster.next_tired())
        return min((time for time in times if time is not None), default=None)

    def _due(self, job: Job, ticket: int, seconds: float | None, now: float) -> None:
        """Act on a timer: a deadline (ticket 0), a timeout, or a second look (no seconds)."""
        if job.state is JobState.DONE or (ticket and job.ticket != ticket):
            return
        if seconds is not None and job.state is not JobState.ABANDONED and job.stopping is None:
            clock = "timeout" if ticket else "deadline"
            job.stopping = TurnTimeout(seconds, clock=clock)
            if clock == "deadline":
                job.retries = 0
        if job.state is JobState.QUEUED:
            if job.stopping is not None:
                self._dispatcher.queued -= 1
                self._endings.end(job, "failed")
                self.commands.append(Fail(job, job.stopping))
        else:
            self._stopping.stop(job, now)

    # The machine.

    def hold(self, held: bool) -> None:
        """Begin nothing beside what runs, or begin again."""
        self._dispatcher.held = held

    def resize(self, gate: Gate, capacity: int, now: float) -> None:
        """Have another number of turns in flight at a gate; what is in flight goes on."""
        gate.capacity = capacity
        self.lanes.wake_room(gate, now)

    def not_started(self, worker_id: int) -> None:
        """Take note that a worker could not be started."""
        worker = self.roster.workers.get(worker_id)
        if worker is not None:
            self.roster.remove(worker)

    def shrink(self, kind: Kind) -> bool:
        """Start no more workers than there are; return whether there is one at all.

        Where there is none of the kind that is wanted, one of the other kind makes room for it.
        """
        alive, others = self.roster.alive(kind), self.roster.alive(_OTHER[kind])
        if not alive and others:
            one = self.roster.first_ready(_OTHER[kind])
            if one is not None:
                self._retire(one)
        if alive or others:
            self.roster.limit = min(self.roster.limit, max(1, alive or others - 1))
        return bool(alive or others)

    def retire_idle(self, worker_id: int) -> None:
        """Replace a worker that has nothing to do and holds no session."""
        worker = self.roster.workers.get(worker_id)
        if worker is None or worker.state is not WorkerState.READY:
            return
        if not worker.inflight and not worker.sessions:
            self._retire(worker)

    # Stopping what runs.

    def stop(self, job: Job, error: BaseException, now: float) -> None:
        """End a shipped job with ``error``, by ending its call."""
        if job.state is JobState.SHIPPED and job.stopping is None:
            job.stopping = error
            self._stopping.stop(job, now)

    def _relieve(self, worker: Worker, let_go: int, now: float) -> None:
        """Take note that a worker has let go of so many jobs."""
        if not worker.inflight:
            self._rest(worker, now)
        else:
            self.roster.open(worker)
            if worker.timed:
                self._dispatcher.arm_head(worker, now)
        for _ in range(min(let_go, len(worker.waiting))):
            self.lanes.wake_next(worker)

    # Workers.

    def _rest(self, worker: Worker, now: float) -> None:
        if self.roster.rest(worker, now):
            self._retire(worker)

    def _retire(self, worker: Worker) -> None:
        self.roster.retire(worker)
        self.commands.append(Retire(worker.id))
