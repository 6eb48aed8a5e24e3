"""The policy's promises, over random histories of a simulated pool."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hmz_mp.core.breaker import Breaker
from hmz_mp.core.commands import CancelTurn, Fail, Kill, Retire, Ship, Start
from hmz_mp.core.endings import LOSSES
from hmz_mp.core.gates import MINUTE, Gate
from hmz_mp.core.jobs import HOST_TURNS, Job, JobState, Kind, Lane, Timing, WorkerState
from hmz_mp.core.policy import Policy
from hmz_mp.core.stopping import LOOK_AGAIN
from hmz_mp.errors import TurnTimeout, WorkerDied


class Ended(NamedTuple):
    """The end of a call, as its worker says."""

    ticket: int
    ok: bool
    seconds: float
    data: bytes = b""


class SimulatedWorker:
    """A worker that runs calls in the order in which they came; a host runs them all."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.ready = False
        self.queue: list[int] = []
        self.kills: list[int] = []
        self.cancels: set[int] = set()
        self.retiring = False


class World:
    """A pool of simulated workers under a real policy; counts how each job ends."""

    def __init__(self, workers: int = 2, *, turns_per_worker: int = 0) -> None:
        self.policy = Policy(workers, turns_per_worker=turns_per_worker, idle_timeout=50)
        self.width = workers
        self.now = 0.0
        self.workers: dict[int, SimulatedWorker] = {}
        self.jobs: list[Job] = []
        self.endings: Counter[int] = Counter()
        self.how: dict[int, str] = {}
        self.begun: dict[int, list[int]] = {}  # lane: job ids, in the order of first shipment
        self.timing = Timing()

    def submit(self, lane: Lane, **settings: object) -> Job:
        job = Job(len(self.jobs) + 1, lane, self.timing)
        for name, value in settings.items():
            setattr(job, name, value)
        self.jobs.append(job)
        self.policy.submit(job, self.now)
        return job

    def ended(self, job: Job, how: str) -> None:
        self.endings[job.id] += 1
        self.how[job.id] = how

    def cancel(self, job: Job) -> None:
        if self.policy.cancel(job, self.now):
            self.ended(job, "cancelled")

    def settle(self) -> None:
        """Carry out what the policy wants done, as the pool would."""
        self.policy.dispatch(self.now)
        while self.policy.commands:
            for command in self.policy.take_commands():
                self.carry_out(command)

    def carry_out(self, command: object) -> None:
        if isinstance(command, Start):
            self.workers[command.worker] = SimulatedWorker(command.kind)
        elif isinstance(command, Ship):
            for job in command.jobs:
                self.workers[command.worker].queue.append(job.ticket)
                begun = self.begun.setdefault(job.lane.id, [])
                if job.id not in begun:
                    begun.append(job.id)
        elif isinstance(command, Kill):
            self.workers[command.worker].kills.append(command.only)
        elif isinstance(command, CancelTurn):
            self.workers[command.worker].cancels.add(command.ticket)
        elif isinstance(command, Retire):
            assert not self.workers[command.worker].queue
            self.workers[command.worker].retiring = True
        elif isinstance(command, Fail):
            self.ended(command.job, "failed")

    # What workers do.

    def start_all(self) -> None:
        for number, worker in self.workers.items():
            if not worker.ready:
                worker.ready = True
                self.policy.ready(number, self.now)

    def answer(self, number: int, ok: bool = True, seconds: float = 1e-5, at: int = 0) -> None:
        worker = self.workers[number]
        ticket = worker.queue.pop(at)
        (job,) = self.policy.answered(number, [Ended(ticket, ok, seconds)], self.now)
        if job is not None:
            self.ended(job, "done" if ok else "failed")

    def give_back(self, number: int) -> None:
        worker = self.workers[number]
        given = worker.queue[1:]
        del worker.queue[1:]
        self.policy.gave_back(number, given, worker.queue[0], self.now)

    def carry_out_kill(self, number: int) -> None:
        worker = self.workers[number]
        only = worker.kills.pop(0)
        running = worker.queue[0] if worker.queue else 0
        if only and only != running:
            self.policy.missed(number, self.now)
        else:
            self.die(number, running)

    def die(self, number: int, running: int) -> None:
        del self.workers[number]
        self.policy.died(number, running, WorkerDied(number, signal=9), self.now)


class PolicyMachine(RuleBasedStateMachine):
    """Random histories: whatever happens, nothing is lost, doubled, too wide or out of order."""

    @initialize(
        workers=st.integers(1, 3),
        pool=st.integers(0, 4),
        narrow=st.integers(1, 3),
        turns=st.sampled_from([0, 0, 3]),
    )
    def begin(self, workers: int, pool: int, narrow: int, turns: int) -> None:
        self.world = World(workers, turns_per_worker=turns)
        everything = Gate("pool", pool)
        first, second = Gate("first", narrow), Gate("second", 2)
        rated = Gate("rated", 0, per_minute=3)
        finding = Gate("finding", breaker=Breaker(lambda: 0.5))
        finding.adapt(1)
        self.gates = [everything, first, second, rated, finding]
        sets = [
            (everything,),
            (everything, first),
            (everything, second, first),
            (everything, rated),
            (everything, finding),
        ]
        self.lanes = [
            Lane(1, "call", sets[0]),
            Lane(2, "call", sets[1]),
            Lane(3, "call", sets[2], priority=1),
            Lane(4, "call", sets[3]),
            Lane(5, "host", sets[1]),
            Lane(6, "host", sets[0]),
            Lane(7, "call", sets[4]),
            Lane(8, "host", sets[4]),
        ]
        self.sessions = [
            Lane(100 + at, "host" if at == 2 else "call", sets[at % 3], serial=True)
            for at in range(4)
        ]

    @rule(
        lane=st.integers(0, 11),
        count=st.integers(1, 5),
        retries=st.integers(0, 1),
        timeout=st.sampled_from([None, 0.5, 5.0]),
        deadline=st.sampled_from([None, None, 3.0]),
    )
    def submit(
        self, lane: int, count: int, retries: int, timeout: float | None, deadline: float | None
    ) -> None:
        for _ in range(count):
            self.world.submit(
                [*self.lanes, *self.sessions][lane],
                retries=retries,
                timeout=timeout,
                deadline=deadline,
            )
        self.world.settle()

    @precondition(lambda self: self.world.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.world.cancel(data.draw(st.sampled_from(self.world.jobs)))
        self.world.settle()

    @rule()
    def start(self) -> None:
        self.world.start_all()
        self.world.settle()

    def busy(self) -> list[int]:
        return [number for number, worker in self.world.workers.items() if worker.queue]

    @precondition(lambda self: self.busy())
    @rule(data=st.data(), ok=st.booleans(), seconds=st.sampled_from([1e-6, 1e-4, 1.0]))
    def answer(self, data: st.DataObject, ok: bool, seconds: float) -> None:
        number = data.draw(st.sampled_from(self.busy()))
        worker = self.world.workers[number]
        at = 0
        if worker.kind == "host":
            at = data.draw(st.integers(0, len(worker.queue) - 1))
        self.world.answer(number, ok, seconds, at)
        self.world.settle()

    @precondition(lambda self: self.busy())
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.busy()))
        if self.world.workers[number].kind == "call":
            self.world.give_back(number)
            self.world.settle()

    @precondition(lambda self: any(one.kills for one in self.world.workers.values()))
    @rule()
    def kill(self) -> None:
        for number in [key for key, one in self.world.workers.items() if one.kills]:
            self.world.carry_out_kill(number)
        self.world.settle()

    @precondition(lambda self: self.world.workers)
    @rule(data=st.data(), running=st.booleans())
    def die(self, data: st.DataObject, running: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.world.workers)))
        queue = self.world.workers[number].queue
        self.world.die(number, queue[0] if running and queue else 0)
        self.world.settle()

    @rule(seconds=st.sampled_from([0.01, 0.6, 4.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.policy.tick(self.world.now)
        self.world.settle()

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        assert all(count == 1 for count in self.world.endings.values())

    @invariant()
    def no_gate_is_over_its_capacity(self) -> None:
        for gate in self.gates:
            assert 0 <= gate.used <= (gate.capacity or 10**9)
            if gate.breaker is not None:
                assert gate.used <= gate.breaker.width.bound
            recent = [time for time in gate.starts if time > self.world.now - MINUTE]
            assert len(recent) <= (gate.per_minute or 10**9)

    @invariant()
    def gates_count_what_is_in_flight(self) -> None:
        flying = [
            job
            for worker in self.world.policy.roster.workers.values()
            for job in worker.inflight.values()
        ]
        for gate in self.gates:
            assert gate.used == sum(gate in job.lane.gates for job in flying)
        assert self.world.policy.running == len(flying)

    @invariant()
    def sessions_have_one_turn_at_a_time_in_order(self) -> None:
        for lane in self.sessions:
            flying = [
                job
                for worker in self.world.policy.roster.workers.values()
                for job in worker.inflight.values()
                if job.lane is lane
            ]
            assert len(flying) <= 1
            begun = self.world.begun.get(lane.id, [])
            assert begun == sorted(begun)

    @invariant()
    def no_more_workers_than_asked_for(self) -> None:
        for kind in ("call", "host"):
            alive = [
                one
                for one in self.world.policy.roster.workers.values()
                if one.kind == kind and one.state is not WorkerState.RETIRING
            ]
            assert len(alive) <= self.world.width

    @invariant()
    def nothing_waits_that_could_run(self) -> None:
        policy = self.world.policy
        idle = [
            one
            for one in policy.roster.workers.values()
            if one.state is WorkerState.READY and not one.inflight and one.kind == "call"
        ]
        if not idle:
            return
        for lane in self.lanes:
            waiting = [job for job in lane.jobs if job.state is JobState.QUEUED]
            if waiting and lane.kind == "call":
                assert not all(gate.is_free(self.world.now) for gate in lane.gates), (
                    lane,
                    lane.place,
                    lane.woken_by,
                    lane.gates,
                    policy.roster._idle,
                )

    def teardown(self) -> None:
        """Let everything end well: then every job has ended once, and nothing is held."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(100 + 40 * len(world.jobs)):
            if len(world.endings) == len(world.jobs) and not self.busy():
                break
            world.start_all()
            for number in list(world.workers):
                worker = world.workers[number]
                if worker.kills:
                    world.carry_out_kill(number)
                elif worker.queue:
                    world.answer(number)
                elif worker.retiring:
                    world.die(number, 0)
            world.now += 1.0
            world.policy.tick(world.now)
            world.settle()
        assert len(world.endings) == len(world.jobs)
        assert all(gate.used == 0 for gate in self.gates)
        assert world.policy.running == 0
        assert world.policy.queued == 0


TestRandomHistories = PolicyMachine.TestCase
TestRandomHistories.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.target],  # shrinking takes minutes
    database=None,
)


# What each rule is for, one at a time.


def world_with(workers: int = 1, **options: int) -> tuple[World, Lane]:
    return World(workers, **options), Lane(1, "call")


def running(world: World, lane: Lane, count: int = 1, **job_settings: object) -> list[Job]:
    jobs = [world.submit(lane, **job_settings) for _ in range(count)]
    world.settle()
    world.start_all()
    world.settle()
    return jobs


def test_workers_start_on_demand_and_no_more_than_the_work_needs() -> None:
    world, lane = world_with(4)
    running(world, lane, 2)
    assert len(world.workers) == 2
    running(world, lane, 5)
    assert len(world.workers) == 4


def test_a_call_of_unknown_length_is_shipped_alone() -> None:
    world, lane = world_with(1)
    running(world, lane, 10)
    assert len(world.workers[1].queue) == 1


def test_short_calls_are_shipped_ahead_and_long_ones_are_not() -> None:
    world, lane = world_with(1)
    running(world, lane, 400)
    world.answer(1, seconds=1e-6)
    world.settle()
    assert len(world.workers[1].queue) > 50
    world, lane = world_with(1)
    running(world, lane, 10)
    world.answer(1, seconds=0.5)
    world.settle()
    assert len(world.workers[1].queue) == 1


def test_what_was_given_back_runs_on_an_idle_worker_in_its_order() -> None:
    world, lane = world_with(2)
    world.timing.note(1e-6)
    first, second, third = running(world, lane, 3)[:3]
    busy = next(number for number, one in world.workers.items() if len(one.queue) > 1)
    idle = next(number for number in world.workers if number != busy)
    while world.workers[idle].queue:
        world.answer(idle)
    held = world.workers[busy].queue[0]
    world.give_back(busy)
    world.settle()
    assert world.workers[busy].queue == [held]
    assert world.workers[idle].queue
    assert {first.state, second.state, third.state} <= {JobState.SHIPPED, JobState.DONE}


def test_a_turn_that_waits_for_a_gate_holds_up_nothing_else() -> None:
    world = World(2)
    narrow = Gate("narrow", 1)
    slow, free = Lane(1, "call", (narrow,)), Lane(2, "call")
    running(world, slow, 3)
    (job,) = running(world, free)
    assert job.state is JobState.SHIPPED
    assert narrow.used == 1


def test_higher_priority_goes_first() -> None:
    world = World(1)
    usual, urgent = Lane(1, "call"), Lane(2, "call", priority=5)
    running(world, usual, 3)
    (job,) = running(world, urgent)
    world.answer(1, seconds=1.0)
    world.settle()
    assert job.state is JobState.SHIPPED


def test_only_the_call_that_ran_is_blamed_for_its_worker() -> None:
    world, lane = world_with(1)
    world.timing.note(1e-6)
    guilty, *others = running(world, lane, 10)
    assert len(world.workers[1].queue) == 10
    world.die(1, world.workers[1].queue[0])
    world.settle()
    assert world.how == {guilty.id: "failed"}
    assert all(job.state is JobState.QUEUED for job in others)
    world.start_all()
    world.settle()
    (number,) = world.workers
    while world.workers[number].queue:
        world.answer(number)
        world.settle()
    assert [world.how[job.id] for job in others] == ["done"] * 9


def test_a_call_whose_workers_keep_dying_before_it_begins_fails_in_the_end() -> None:
    world, lane = world_with(1)
    (job,) = running(world, lane)
    for _ in range(LOSSES):
        (number,) = world.workers
        world.die(number, 0)
        world.settle()
        world.start_all()
        world.settle()
    assert world.how == {job.id: "failed"}


def test_a_timeout_counts_from_the_beginning_and_a_deadline_from_submission() -> None:
    world, lane = world_with(1)
    slow, waiting = running(world, lane, 2, timeout=2.0)
    late = world.submit(lane, deadline=1.5)
    world.now = 1.0
    world.policy.tick(world.now)
    assert not world.policy.commands
    world.now = 2.0
    world.policy.tick(world.now)
    world.settle()
    assert world.how == {late.id: "failed"}
    assert world.workers[1].kills == [world.workers[1].queue[0]]
    world.carry_out_kill(1)
    world.settle()
    assert world.how[slow.id] == "failed"
    assert waiting.state is JobState.QUEUED


def test_the_failure_of_a_timeout_says_which_clock() -> None:
    world, lane = world_with(1)
    (job,) = running(world, lane, deadline=1.0, retries=3)
    world.now = 1.0
    world.policy.tick(world.now)
    world.policy.died(1, job.ticket, WorkerDied(1, signal=9), world.now)
    (fail,) = [one for one in world.policy.commands if isinstance(one, Fail)]
    assert isinstance(fail.error, TurnTimeout)
    assert fail.error.clock == "deadline"


def test_a_finished_call_is_not_killed_for_a_cancel_that_came_too_late() -> None:
    world, lane = world_with(1)
    world.timing.note(1e-6)
    first, second = running(world, lane, 2)
    world.cancel(first)
    world.settle()
    world.answer(1)  # the answer was on its way
    world.settle()
    world.carry_out_kill(1)
    world.settle()
    assert 1 in world.workers
    world.answer(1)
    assert world.how == {first.id: "cancelled", second.id: "done"}


def test_what_was_to_be_stopped_while_its_worker_was_to_be_killed_is_stopped_after() -> None:
    world, lane = world_with(1)
    world.timing.note(1e-6)
    first, second, third = running(world, lane, 3, timeout=1.0)
    world.cancel(first)
    world.settle()
    world.answer(1)  # it ended by itself, and the second is what runs
    world.cancel(second)
    world.settle()
    assert len(world.workers[1].kills) == 1
    world.carry_out_kill(1)
    world.settle()
    assert 1 in world.workers
    world.now += LOOK_AGAIN
    world.policy.tick(world.now)
    world.settle()
    assert world.workers[1].kills == [second.ticket]
    world.carry_out_kill(1)
    world.settle()
    assert world.how == {first.id: "cancelled", second.id: "cancelled"}
    assert third.state is JobState.QUEUED


def test_a_retry_comes_before_what_was_queued_later() -> None:
    world, lane = world_with(1)
    failing, later = running(world, lane, 2, retries=1)
    world.answer(1, ok=False, seconds=1.0)
    world.settle()
    assert failing.state is JobState.SHIPPED
    assert failing.attempts == 2
    assert later.state is JobState.QUEUED
    world.answer(1, ok=False)
    assert world.how == {failing.id: "failed"}
    assert world.policy.counts["retried"] == 1


def test_a_session_stays_with_its_worker_and_moves_when_that_is_lost() -> None:
    world = World(2)
    lane, other = Lane(1, "call", serial=True), Lane(2, "call")
    running(world, lane, 3)
    home = next(number for number, one in world.workers.items() if one.queue)
    running(world, other, 1)
    world.answer(home, seconds=1.0)
    world.settle()
    assert len(world.workers[home].queue) == 1
    world.die(home, world.workers[home].queue[0])
    assert lane.count_restarts() == 1
    world.settle()
    world.start_all()
    world.settle()
    assert lane.pinned is not None
    assert lane.pinned.id != home
    assert lane.count_restarts() == 1


def test_idle_workers_retire_but_for_those_that_hold_a_session() -> None:
    world = World(2)
    session, plain = Lane(1, "call", serial=True), Lane(2, "call")
    running(world, session)
    running(world, plain)
    for number in list(world.workers):
        world.answer(number)
    world.settle()
    wake = world.policy.next_wake()
    assert wake == 50
    world.now = 50.0
    world.policy.tick(world.now)
    world.settle()
    assert sorted(one.retiring for one in world.workers.values()) == [False, True]
    world.policy.end_session(session)
    world.policy.tick(world.now)
    world.settle()
    assert all(one.retiring for one in world.workers.values())


def test_a_worker_serves_its_turns_and_is_replaced() -> None:
    world, lane = world_with(1, turns_per_worker=2)
    running(world, lane, 10)
    for _ in range(60):
        for number in list(world.workers):
            if world.workers[number].queue:
                world.answer(number)
            elif world.workers[number].retiring:
                world.die(number, 0)
        world.settle()
        world.start_all()
        world.settle()
    assert len(world.how) == 10
    assert set(world.how.values()) == {"done"}


def test_per_minute_holds_turns_until_the_minute_has_passed() -> None:
    world = World(4)
    lane = Lane(1, "call", (Gate("rated", 0, per_minute=2),))
    jobs = running(world, lane, 3)
    assert [job.state for job in jobs].count(JobState.SHIPPED) == 2
    assert world.policy.next_wake() == MINUTE
    world.now = MINUTE
    world.policy.tick(world.now)
    world.settle()
    world.start_all()
    world.settle()
    assert jobs[2].state is JobState.SHIPPED


def test_one_host_holds_many_turns_before_another_is_started() -> None:
    world = World(2)
    lane = Lane(1, "host")
    running(world, lane, HOST_TURNS + 10)
    assert len(world.workers) == 2
    assert len(world.workers[1].queue) == HOST_TURNS


def test_a_host_that_does_not_let_go_of_a_cancelled_turn_is_killed() -> None:
    world = World(1)
    lane = Lane(1, "host")
    (job,) = running(world, lane)
    world.cancel(job)
    world.settle()
    assert world.workers[1].cancels == {job.ticket}
    world.now = 5.0
    world.policy.tick(world.now)
    world.settle()
    assert world.workers[1].kills == [0]


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_the_work_for_one_event_does_not_grow_with_what_waits(count: int) -> None:
    world = World(1)
    gate = Gate("batch", 2)
    lanes = [Lane(at, "call", (gate,), serial=True) for at in range(count)]
    for lane in lanes:
        world.submit(lane)
    world.settle()
    world.start_all()
    steps = 0
    original = gate.is_free

    class Counting(Gate):
        __slots__ = ()

        def is_free(self, now: float) -> bool:
            nonlocal steps
            steps += 1
            return original(now)

    gate.__class__ = Counting
    world.settle()
    world.answer(1)
    world.settle()  # every lane has come to the gate once
    for _ in range(100):
        steps = 0
        world.answer(1)
        world.settle()
        assert steps < 20


def test_a_session_that_waits_for_its_worker_passes_its_place_on() -> None:
    world = World(2)
    pool = Gate("pool", 2)
    session, plain = Lane(100, "call", (pool,), serial=True), Lane(1, "call", (pool,))
    world.submit(session)
    world.settle()
    world.start_all()
    world.settle()
    world.answer(1, seconds=1e-6)
    for lane in (session, session, plain, plain, plain):
        world.submit(lane)
        world.settle()
    world.answer(1, seconds=1e-6)  # two plain ones take both places there, and the others wait
    world.settle()
    assert len(world.workers[1].queue) == 2
    world.start_all()
    world.settle()
    world.give_back(1)  # one place is free: the session wants it in the busy worker, of all
    world.settle()
    assert len(world.workers[2].queue) == 1


def two_sessions_that_wait_for_their_worker(world: World, *gates: Gate) -> list[Lane]:
    """Return sessions of the one worker, which runs something long for somebody else."""
    sessions = [Lane(100, "call", gates, serial=True), Lane(101, "call", serial=True)]
    for session in sessions:
        running(world, session)
        world.answer(1, seconds=1.0)
        world.settle()
    world.timing = Timing()  # of what nobody knows yet, so that it is not shipped ahead
    running(world, Lane(1, "call"))
    for session in sessions:
        world.submit(session)
        world.settle()
    assert [lane.id for lane in world.policy.roster.workers[1].waiting] == [100, 101]
    return sessions


def test_a_session_that_was_cancelled_while_it_waited_lets_the_next_one_go_on() -> None:
    world = World(1)
    sessions = two_sessions_that_wait_for_their_worker(world)
    world.cancel(sessions[0].jobs[0])
    world.answer(1, seconds=1.0)
    world.settle()
    assert world.begun[101] == [2, 5]
    assert len(world.workers[1].queue) == 1


def test_a_session_that_finds_its_gate_taken_lets_the_next_one_go_on() -> None:
    world, gate = World(1), Gate("narrow", 1)
    two_sessions_that_wait_for_their_worker(world, gate)
    gate.take(world.now)
    world.answer(1, seconds=1.0)
    world.settle()
    assert world.begun[101] == [2, 5]
    assert gate.count_waiting() == 1


# What the machine forces on a pool.


def test_nothing_begins_beside_what_runs_while_it_is_held() -> None:
    world = World(2)
    lane = Lane(1, "call")
    world.policy.hold(True)
    jobs = [world.submit(lane) for _ in range(3)]
    world.settle()
    world.start_all()
    world.settle()
    assert [job.state for job in jobs].count(JobState.SHIPPED) == 1
    (number,) = [number for number, one in world.workers.items() if one.queue]
    world.answer(number)
    world.settle()
    # One worker at a time; short calls go to it together.
    assert len([one for one in world.workers.values() if one.queue]) == 1
    world.policy.hold(False)
    world.settle()
    assert JobState.QUEUED not in [job.state for job in jobs]


def test_a_gate_of_another_size_lets_others_begin_and_what_runs_go_on() -> None:
    world = World(1)
    gate = Gate("programs", 1)
    lanes = [Lane(at, "host", (gate,), serial=at > 1) for at in range(1, 5)]
    for lane in lanes:
        running(world, lane, 2)
    assert gate.used == 1
    world.policy.resize(gate, 3, world.now)
    world.settle()
    assert gate.used == 3
    world.policy.resize(gate, 1, world.now)
    for _ in range(2):
        world.answer(1)
        world.settle()
    assert gate.used == 1
    for _ in range(6):
        world.answer(1)
        world.settle()
    assert len(world.how) == 8
    assert (gate.used, gate.widest) == (0, 3)


def test_only_an_idle_worker_without_a_session_is_replaced() -> None:
    world = World(1)
    lane = Lane(1, "call", serial=True)
    world.submit(lane)
    world.settle()
    (number,) = world.workers
    world.policy.retire_idle(number)  # starting
    world.start_all()
    world.settle()
    world.policy.retire_idle(number)  # busy
    world.answer(number)
    world.settle()
    world.policy.retire_idle(number)  # of a session
    assert not world.policy.commands
    world.policy.end_session(lane)
    world.policy.retire_idle(number)
    assert world.policy.commands == [Retire(number)]
    world.policy.retire_idle(99)


def test_a_pool_goes_on_with_the_workers_there_are() -> None:
    policy = Policy(4)
    lane = Lane(1, "call")
    for at in range(4):
        policy.submit(Job(at + 1, lane, Timing()), 0.0)
    policy.dispatch(0.0)
    starts = [one.worker for one in policy.commands if isinstance(one, Start)]
    assert len(starts) == 4
    for worker in starts[1:]:
        policy.not_started(worker)
    policy.not_started(99)
    assert policy.shrink("call")
    assert (policy.roster.limit, policy.roster.missing("call")) == (1, 0)
    policy.not_started(starts[0])
    assert not policy.shrink("call")


def test_starts_that_fail_make_no_room_where_there_is_none() -> None:
    policy = Policy(2)
    policy.submit(Job(1, Lane(1, "call"), Timing()), 0.0)
    policy.dispatch(0.0)
    policy.roster.limit = 0  # as of a cluster whose workers are leaving
    assert policy.shrink("call")
    assert policy.shrink("host")
    assert policy.roster.limit == 0


def test_a_worker_of_the_other_kind_makes_room_when_there_is_none() -> None:
    policy = Policy(2)
    lane = Lane(1, "call")
    jobs = [Job(at + 1, lane, Timing()) for at in range(2)]
    for job in jobs:
        policy.submit(job, 0.0)
    policy.dispatch(0.0)
    first, second = (one.worker for one in policy.commands if isinstance(one, Start))
    policy.commands.clear()
    policy.ready(first, 0.0)
    policy.ready(second, 0.0)
    policy.dispatch(0.0)
    assert jobs[0].worker is not None
    assert jobs[1].worker is not None
    first, second = jobs[0].worker.id, jobs[1].worker.id
    policy.answered(second, [Ended(jobs[1].ticket, True, 1.0)], 0.0)
    policy.commands.clear()
    assert policy.shrink("host")
    assert policy.commands == [Retire(second)]
    assert policy.roster.limit == 1
    # One that has to go busy, and is then killed, is counted once.
    assert policy.shrink("host")
    assert policy.commands[1:] == [Retire(first)]
    policy.cancel(jobs[0], 0.0)
    for worker in (first, second):
        policy.died(worker, 0, WorkerDied(), 0.0)
    assert policy.roster.alive("call") == 0
    assert not policy.shrink("host")
