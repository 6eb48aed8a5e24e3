"""Simulated workers under a real policy, in virtual time, with what it promises checked.

It stands where the engine and the pool are: it carries out what the policy wants done, and tells
it what the workers do. Nothing here runs for real, but the policy, whose CPU time is taken.

What is checked at each step is counted here, from what was shipped and what ended, and not read
from the policy: a turn ends once; no gate is over its capacity, nor its turns of a minute; a
session has one turn in flight, and they begin in the order of submission.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from bench.scale.load import Load
from hmz_mp.core.commands import CancelTurn, Command, Fail, Kill, Retire, Ship, Start
from hmz_mp.core.gates import MINUTE, Gate
from hmz_mp.core.jobs import Job, Kind, Lane
from hmz_mp.core.policy import Policy
from hmz_mp.errors import WorkerDied

START_SECONDS = 0.3
KILL_SECONDS = 0.01
PACK_SECONDS = 0.0005  # for so long a worker keeps the answers of short calls
LONG_SECONDS = 0.03  # what runs so long has what was shipped behind it given back
FEED = 256  # turns submitted in a step, at most

Event = tuple[float, int, Callable[..., None], tuple[Any, ...]]


class Ended(NamedTuple):
    """The end of a call, as its worker says."""

    ticket: int
    ok: bool
    seconds: float
    data: bytes = b""


class SimulatedWorker:
    """A worker: what it was handed and has not let go of, by ticket, in that order."""

    __slots__ = ("begun", "id", "jobs", "kind", "retiring")

    def __init__(self, number: int, kind: Kind) -> None:
        self.id = number
        self.kind = kind
        self.jobs: dict[int, Job] = {}
        self.begun = -1.0
        self.retiring = False

    def running(self) -> int:
        """The ticket of the call that runs; 0 where none does."""
        return next(iter(self.jobs), 0)


class World:
    """One simulation: `run` it, then read its figures."""

    # The whole state: the virtual time, what will happen, the workers, how often each turn ended,
    # what is in flight at each gate and each session, and what this step tells the policy.
    def __init__(
        self, workers: int, turns: int, *, window: int, at_once: int = 0, step: int = 8, seed: int
    ) -> None:
        random = Random(seed)
        self.policy = Policy(workers, turns_per_worker=5000)
        self.load = Load(workers, turns, at_once, random)
        self.window = window
        self.step = step
        self.now = 0.0
        self.cpu = 0  # nanoseconds that the policy took
        self.dearest = 0  # nanoseconds of its longest step
        self.events = 0
        self.steps = 0
        self.workers: dict[int, SimulatedWorker] = {}
        self.ended = bytearray(turns + 1)
        self.endings: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._random = random
        self._coming: list[Event] = []
        self._order = 0
        self._wake: float | None = None
        self._used: Counter[Gate] = Counter()
        self._starts: dict[Gate, deque[float]] = {}
        self._in_session: dict[Lane, Job] = {}
        self._last_begun: dict[Lane, int] = {}
        self._tell: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def run(self) -> None:
        """Have every turn submitted, and end."""
        while self._feed() or self._coming or self._wake is not None:
            if sum(self.endings.values()) == self.load.turns and not self.policy.running:
                break
            self._gather()
            self._decide()
        self._check_end()

    # One step: what happened, what the policy makes of it, and what is done about that.

    def _feed(self) -> bool:
        room = min(FEED, self.window - self.policy.queued)
        jobs = self.load.make(room) if room > 0 else []
        for job in jobs:
            self._say(self.policy.submit, job)
            after = self.load.cancelled_after()
            if after is not None:
                self._later(after, self._cancel, job)
        return bool(jobs)

    def _gather(self) -> None:
        """Let so many things happen that one step of the loop hears of."""
        coming = self._coming
        least = self.step if not self._tell else 0  # the step of what is submitted is now
        for _ in range(self.step):
            if not coming or (not least and coming[0][0] > self.now):
                break
            if self._wake is not None and self._wake <= coming[0][0]:
                break
            self.now, _, what, arguments = heappop(coming)
            what(*arguments)
        if not self._tell and self._wake is not None:
            next_time = coming[0][0] if coming else self._wake
            self.now = max(self.now, min(self._wake, next_time))

    def _decide(self) -> None:
        policy, now, tell = self.policy, self.now, self._tell
        answers = []
        began = time.thread_time_ns()
        for event, arguments in tell:
            answers.append(event(*arguments, now))
        policy.tick(now)
        policy.dispatch(now)
        commands = policy.take_commands()
        self._wake = policy.next_wake()
        took = time.thread_time_ns() - began
        self.cpu += took
        self.dearest = max(self.dearest, took)
        self.steps += 1
        self.events += len(tell)
        for (event, arguments), answer in zip(tell, answers, strict=True):
            self._heard(event, arguments, answer)
        tell.clear()
        for command in commands:
            self._carry_out(command)

    def _heard(self, event: Callable[..., Any], arguments: tuple[Any, ...], answer: Any) -> None:
        if event == self.policy.answered:
            for job, ending in zip(answer, arguments[1], strict=True):
                if job is not None:
                    self._end(job, "done" if ending.ok else "failed")
        elif event == self.policy.cancel and answer:
            self._end(arguments[0], "cancelled")

    def _say(self, event: Callable[..., Any], *arguments: Any) -> None:
        self._tell.append((event, arguments))

    def _later(self, seconds: float, what: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heappush(self._coming, (self.now + seconds, self._order, what, arguments))

    # What the policy wants done.

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Ship):
            self._ship(self.workers[command.worker], command.jobs)
        elif isinstance(command, Start):
            self.workers[command.worker] = SimulatedWorker(command.worker, command.kind)
            self._later(START_SECONDS, self._ready, command.worker)
        elif isinstance(command, Kill):
            self._later(KILL_SECONDS, self._kill, command.worker, command.only)
        elif isinstance(command, CancelTurn):
            self._later(KILL_SECONDS, self._cancel_turn, command.worker, command.ticket)
        elif isinstance(command, Retire):
            self.workers[command.worker].retiring = True
            self._later(KILL_SECONDS, self._exit, command.worker)
        elif isinstance(command, Fail):
            self._end(command.job, type(command.error).__name__)

    def _ship(self, worker: SimulatedWorker, jobs: list[Job]) -> None:
        was_idle = not worker.jobs
        for job in jobs:
            self._take(job)
            worker.jobs[job.ticket] = job
            if worker.kind == "host":
                self._begin_turn(worker, job)
        if worker.kind == "call":
            if was_idle:
                self._begin(worker)
            else:
                self._later(LONG_SECONDS, self._give_back, worker, worker.running())

    # What workers do. A worker that is gone does nothing any more.

    def _ready(self, number: int) -> None:
        if number in self.workers:
            self._say(self.policy.ready, number)

    def _begin(self, worker: SimulatedWorker) -> None:
        """Begin what is next: short calls one after the other, until they are answered together."""
        worker.begun = self.now
        endings: list[Ended] = []
        spent = 0.0
        for ticket, job in worker.jobs.items():
            fate = self.load.fate(job)
            if endings and (fate.dies or fate.hangs or fate.seconds > PACK_SECONDS):
                break
            if fate.dies:
                self._later(fate.seconds, self._die, worker, ticket)
                return
            if fate.hangs:
                break
            spent += fate.seconds
            endings.append(Ended(ticket, fate.ok, fate.seconds))
            if spent > PACK_SECONDS:
                break
        if endings:
            self._later(spent, self._answer, worker, endings)
        if len(worker.jobs) > 1:
            self._later(LONG_SECONDS, self._give_back, worker, worker.running())

    def _answer(self, worker: SimulatedWorker, endings: list[Ended]) -> None:
        if worker.id not in self.workers or worker.running() != endings[0].ticket:
            return
        known = [ending for ending in endings if ending.ticket in worker.jobs]
        for ending in known:
            self._give(worker.jobs.pop(ending.ticket))
        self._say(self.policy.answered, worker.id, known)
        if worker.jobs:
            self._begin(worker)

    def _begin_turn(self, worker: SimulatedWorker, job: Job) -> None:
        fate = self.load.fate(job)
        if fate.dies and self._random.random() < 0.1:  # it takes all others with it
            self._later(fate.seconds, self._die, worker, job.ticket)
        elif not fate.hangs:
            self._later(fate.seconds, self._answer_turn, worker, job.ticket, fate.ok)

    def _answer_turn(self, worker: SimulatedWorker, ticket: int, ok: bool) -> None:
        if worker.id in self.workers and ticket in worker.jobs:
            self._give(worker.jobs.pop(ticket))
            self._say(self.policy.answered, worker.id, [Ended(ticket, ok, 1.0)])

    def _cancel_turn(self, number: int, ticket: int) -> None:
        worker = self.workers.get(number)
        if worker is not None and ticket in worker.jobs:
            self.faults["turns of host workers stopped"] += 1
            self._answer_turn(worker, ticket, ok=False)

    def _give_back(self, worker: SimulatedWorker, running: int) -> None:
        if worker.id not in self.workers or worker.running() != running or len(worker.jobs) < 2:
            return
        if self.now < worker.begun + LONG_SECONDS - 1e-9:
            self._later(worker.begun + LONG_SECONDS - self.now, self._give_back, worker, running)
            return
        tickets = list(worker.jobs)[1:]
        for ticket in tickets:
            self._give(worker.jobs.pop(ticket))
        self.faults["calls given back"] += len(tickets)
        self._say(self.policy.gave_back, worker.id, tickets, running)

    def _kill(self, number: int, only: int) -> None:
        worker = self.workers.get(number)
        if worker is None:
            return
        if only and worker.running() != only:
            self._say(self.policy.missed, number)
        else:
            self.faults["workers killed for a call"] += 1
            self._gone(worker, worker.running())

    def _die(self, worker: SimulatedWorker, ticket: int) -> None:
        if worker.id in self.workers and ticket in worker.jobs:
            self.faults["workers that died in a call"] += 1
            self._gone(worker, ticket)

    def _exit(self, number: int) -> None:
        self.faults["workers retired"] += 1
        self._gone(self.workers[number], 0)

    def _gone(self, worker: SimulatedWorker, running: int) -> None:
        del self.workers[worker.id]
        for job in worker.jobs.values():
            self._give(job)
        self._say(self.policy.died, worker.id, running, WorkerDied(worker.id, signal=9))

    # What callers do.

    def _cancel(self, job: Job) -> None:
        if not self.ended[job.id]:
            self._say(self.policy.cancel, job)

    # What is checked.

    def _take(self, job: Job) -> None:
        lane = job.lane
        for gate in lane.gates:
            self._used[gate] += 1
            assert not gate.capacity or self._used[gate] <= gate.capacity, gate
            if gate.per_minute:
                starts = self._starts.setdefault(gate, deque(maxlen=gate.per_minute))
                full = len(starts) == gate.per_minute
                assert not full or starts[0] + MINUTE <= self.now, gate
                starts.append(self.now)
        if lane.serial:
            assert lane not in self._in_session, lane
            assert job.id >= self._last_begun.get(lane, 0), (lane, job)
            self._in_session[lane] = job
            self._last_begun[lane] = job.id
        assert not self.ended[job.id], job

    def _give(self, job: Job) -> None:
        for gate in job.lane.gates:
            self._used[gate] -= 1
        if job.lane.serial:
            del self._in_session[job.lane]

    def _end(self, job: Job, how: str) -> None:
        assert not self.ended[job.id], f"{job} ended twice"
        self.ended[job.id] = 1
        self.endings[how] += 1

    def _check_end(self) -> None:
        assert sum(self.ended) == self.load.turns, "turns that never ended"
        assert self.policy.running == 0
        assert self.policy.queued == 0
        for gate in self.load.gates:
            assert gate.used == self._used[gate] == 0, gate
