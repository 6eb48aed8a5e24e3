"""The roster: which workers a pool has, which are idle, and which have room for one more job.

Part of the policy, and as pure. Each worker stands in at most one of the two lists that dispatch
reads, so that finding a worker costs the same however many there are.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush

from hmz_mp.core.jobs import HOST_TURNS, Job, Kind, Timing, Worker, WorkerState

__all__ = ["Roster"]

AHEAD_SECONDS = 0.001  # how much work is shipped ahead of a worker, at most
AHEAD_TURNS = 128
AHEAD_LEAST = 2  # calls in flight for a worker, where none takes longer than
AHEAD_CALL_SECONDS = 0.01
AHEAD_TIMEOUT = 1.0  # with less to run in, a call is not shipped ahead
OVERHEAD_SECONDS = 5e-6  # what a call costs in a worker beside its own time


class Roster:
    """The workers of one pool, from `start` to `remove`."""

    # The whole state: the workers; for each kind how many are not retiring, how many are starting,
    # those that are idle (the last one used at the end), those of them that may retire (the first
    # one that became idle first), and the busy ones with room ahead. The ends of these are looked
    # at again and again: in a plain dict that takes the longer, the more was removed there. Of
    # hosts with room, how many turns each has or had: whatever changes that notes it there.
    def __init__(self, limit: int, *, turns_per_worker: int, idle_timeout: float) -> None:
        self.limit = limit
        self.turns_per_worker = turns_per_worker
        self.idle_timeout = idle_timeout
        self.workers: dict[int, Worker] = {}
        self.starting: dict[Kind, int] = {"call": 0, "host": 0}
        self._alive: dict[Kind, int] = {"call": 0, "host": 0}
        self._idle: dict[Kind, OrderedDict[int, Worker]]
        self._idle = {"call": OrderedDict(), "host": OrderedDict()}
        self._tiring: OrderedDict[int, Worker] = OrderedDict()
        self._with_room: dict[Kind, OrderedDict[int, Worker]]
        self._with_room = {"call": OrderedDict(), "host": OrderedDict()}
        self._loads: list[tuple[int, int]] = []  # a heap, with each host's number
        self._last = 0

    # A worker's life.

    def start(self, kind: Kind) -> Worker:
        """Add a worker that is being started."""
        self._last += 1
        worker = self.workers[self._last] = Worker(self._last, kind)
        self._alive[kind] += 1
        self.starting[kind] += 1
        return worker

    def started(self, worker: Worker) -> None:
        """Take note that a worker is set up."""
        worker.state = WorkerState.READY
        self.starting[worker.kind] -= 1

    def rest(self, worker: Worker, now: float) -> bool:
        """Take note that a worker has nothing to do; return whether it has to retire now."""
        if worker.state is not WorkerState.READY:
            return False
        if self._is_spent(worker):
            return True
        worker.expected = 0.0
        worker.idle_since = now
        self._idle[worker.kind][worker.id] = worker
        if not worker.sessions:
            self._tiring[worker.id] = worker
        if worker.kind == "host":
            self.open(worker)
        else:
            self.close(worker)
        return False

    def occupy(self, worker: Worker, turns: int, seconds: float) -> None:
        """Take note that jobs were shipped to a worker, which are expected to take so long."""
        worker.expected += seconds
        worker.served += turns
        if worker.idle_since is not None:
            worker.idle_since = None
            del self._idle[worker.kind][worker.id]
            self._tiring.pop(worker.id, None)
            self.open(worker)
        elif worker.kind == "host":
            self._note_load(worker)

    def release(self, worker: Worker) -> None:
        """Take note that a session which was in a worker is over."""
        worker.sessions -= 1
        if worker.sessions or worker.id not in self._idle[worker.kind]:
            return
        first = next(iter(self._tiring.values()), worker)
        self._tiring[worker.id] = worker
        if _idle_since(worker) < _idle_since(first):
            self._tiring.move_to_end(worker.id, last=False)

    def retire(self, worker: Worker) -> None:
        """Take note that a worker was told to exit."""
        worker.state = WorkerState.RETIRING
        self._alive[worker.kind] -= 1
        self._unlist(worker)

    def condemn(self, worker: Worker) -> None:
        """Take note that a worker is about to be killed."""
        if worker.state is WorkerState.RETIRING:  # no longer counted, and counted off again below
            self._alive[worker.kind] += 1
        worker.state = WorkerState.DYING
        self._unlist(worker)

    def spare(self, worker: Worker) -> None:
        """Take note that a worker is not killed after all."""
        if worker.state is WorkerState.DYING:
            worker.state = WorkerState.READY
            self.open(worker)

    def remove(self, worker: Worker) -> None:
        """Take note of a worker's end."""
        del self.workers[worker.id]
        if worker.state is not WorkerState.RETIRING:
            self._alive[worker.kind] -= 1
        if worker.state is WorkerState.STARTING:
            self.starting[worker.kind] -= 1
        worker.state = WorkerState.GONE
        self._unlist(worker)

    def open(self, worker: Worker) -> None:
        """Offer a busy worker for work shipped ahead."""
        if worker.state is WorkerState.READY:
            self._with_room[worker.kind][worker.id] = worker
            if worker.kind == "host":
                self._note_load(worker)

    def close(self, worker: Worker) -> None:
        """Offer a worker for no more work ahead, until it answers."""
        self._with_room[worker.kind].pop(worker.id, None)

    def _unlist(self, worker: Worker) -> None:
        self.close(worker)
        self._idle[worker.kind].pop(worker.id, None)
        self._tiring.pop(worker.id, None)

    def _is_spent(self, worker: Worker) -> bool:
        return bool(self.turns_per_worker) and worker.served >= self.turns_per_worker

    # Finding one.

    def alive(self, kind: Kind) -> int:
        """Return how many workers of a kind there are, those that are starting among them."""
        return self._alive[kind]

    def is_idle(self, kind: Kind) -> bool:
        """Whether a worker of a kind has nothing to do."""
        return bool(self._idle[kind])

    def first_ready(self, kind: Kind) -> Worker | None:
        """Return a worker of a kind that is set up, an idle one if there is one."""
        ready = (one for one in self.workers.values() if one.state is WorkerState.READY)
        found = [one for one in ready if one.kind == kind]
        return min(found, key=lambda one: len(one.inflight), default=None)

    def missing(self, kind: Kind) -> int:
        """Return how many more workers of a kind may be started."""
        return self.limit - self._alive[kind]

    def find(self, job: Job) -> Worker | None:
        """Return the worker to ship a job to, or ``None`` when it has to wait for one."""
        if job.lane.kind == "host":
            return self._least_busy_host()
        idle = self._idle["call"]
        if idle:
            return idle[next(reversed(idle))]
        return None if self.missing("call") > 0 else self._with_room_for(job)

    def _with_room_for(self, job: Job) -> Worker | None:
        with_room = self._with_room["call"]
        while with_room:
            worker = next(iter(with_room.values()))
            if self.has_room(worker, job):
                return worker
            if not worker.stalled and worker.expected + OVERHEAD_SECONDS <= AHEAD_SECONDS:
                return None  # it has room, but not for this job
            self.close(worker)
        return None

    def _least_busy_host(self) -> Worker | None:
        hosts, loads = self._with_room["host"], self._loads
        while loads:
            turns, number = loads[0]
            best = hosts.get(number)
            if best is not None and len(best.inflight) == turns:
                return None if turns >= HOST_TURNS and self.missing("host") > 0 else best
            heappop(loads)  # of before
        return None

    def _note_load(self, worker: Worker) -> None:
        """Take note of how many turns a host has now."""
        heappush(self._loads, (len(worker.inflight), worker.id))
        hosts = self._with_room["host"]
        if len(self._loads) > 64 + 4 * len(hosts):
            self._loads = [(len(one.inflight), one.id) for one in hosts.values()]
            heapify(self._loads)

    def has_room(self, worker: Worker, job: Job) -> bool:
        """Whether a job may be shipped to a worker now, behind what it has."""
        hurried = job.timeout is not None and job.timeout < AHEAD_TIMEOUT
        if hurried and worker.kind == "call" and worker.inflight:
            return False
        return self.room(worker, job.timing) > 0

    def room(self, worker: Worker, timing: Timing) -> int:
        """Return how many calls that take ``timing`` each may be shipped to a worker now."""
        if worker.state is not WorkerState.READY:
            return 0
        if worker.kind == "host":
            return int(not self._is_spent(worker))
        busy = len(worker.inflight)
        room = 0 if busy else 1
        if timing.seconds is not None and not worker.stalled:
            each = timing.seconds + OVERHEAD_SECONDS
            ahead = int((AHEAD_SECONDS - worker.expected) / each)
            least = AHEAD_LEAST - busy if timing.seconds <= AHEAD_CALL_SECONDS else 0
            room = max(room, min(AHEAD_TURNS - busy, max(least, ahead)))
        if self.turns_per_worker:
            room = min(room, self.turns_per_worker - worker.served)
        return room

    # Idle ones.

    def tired(self, now: float) -> list[Worker]:
        """Return the workers that have been idle for long and hold no session."""
        found = []
        for worker in self._tiring.values():
            if _idle_since(worker) + self.idle_timeout > now:
                break
            found.append(worker)
        return found

    def next_tired(self) -> float | None:
        """Return when the next worker will have been idle for long."""
        for worker in self._tiring.values():
            return _idle_since(worker) + self.idle_timeout
        return None


def _idle_since(worker: Worker) -> float:
    return worker.idle_since or 0.0
