"""The breaker's promises: alone, and over random histories of a pool whose service is busy."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp.core.backoff import SETBACKS
from hmz_mp.core.breaker import FIRST, LONGEST, Breaker, Busy
from hmz_mp.core.commands import Fail, Kill, PutBack, Ship, Start
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Ending, Job, JobState, Lane, Timing
from hmz_mp.core.policy import Policy
from hmz_mp.errors import WorkerDied


def half() -> float:
    return 0.5


def test_it_admits_everything_until_something_is_refused() -> None:
    breaker = Breaker(half)
    assert breaker.is_healthy
    assert breaker.room(1000, 0.0) is None
    breaker.took()
    breaker.succeeded(1, 1.0, 1, 1, 0.0)
    assert (breaker.is_healthy, breaker.probing) == (True, False)
    assert repr(breaker) == "<Breaker closed, width 0>"


def test_open_half_open_closed() -> None:
    breaker = Breaker(half)
    assert breaker.refused(3, 10, Busy(4.0), 8, 100.0) == 104.5
    assert [breaker.room(0, now) for now in (100.0, 104.4, 104.5)] == [0, 0, 1]
    breaker.took()
    assert breaker.room(1, 200.0) == 0
    breaker.succeeded(9, 1.0, 1, 8, 200.0)  # of before
    assert breaker.room(0, 200.0) == 0
    breaker.succeeded(11, 1.0, 1, 8, 200.0)
    assert [breaker.room(used, 200.0) for used in (0, 3, 5)] == [4, 1, 0]
    assert repr(breaker) == "<Breaker closed, width 4>"


def test_pauses_double_up_to_the_longest() -> None:
    breaker, now, pauses = Breaker(half), 0.0, []
    for ticket in range(1, 10):
        until = breaker.refused(ticket, ticket, Busy(), 1, now)
        pauses.append(until - now)
        now = until
        breaker.took()
    assert pauses == [min(LONGEST, FIRST * 2**n) / 2 for n in range(9)]


def test_those_that_were_in_flight_count_once() -> None:
    breaker = Breaker(half)
    for ticket in range(1, 9):
        breaker.refused(ticket, 8, Busy(), 9 - ticket, 0.0)
    assert (breaker.streak, breaker.width.bound, breaker.until) == (1, 4.0, 0.5)
    breaker.refused(8, 8, Busy(30.0), 1, 1.0)
    assert (breaker.streak, breaker.until) == (1, 31.0)


def test_a_probe_does_not_close_before_a_later_refusal_allows() -> None:
    breaker = Breaker(half)
    breaker.refused(1, 2, Busy(), 2, 0.0)
    breaker.took()
    breaker.refused(2, 3, Busy(50.0), 1, 1.0)
    breaker.succeeded(3, 1.0, 1, 2, 2.0)
    assert [breaker.room(0, now) for now in (2.0, 50.9, 51.0)] == [0, 0, 1]


def test_a_probe_that_is_refused_does_not_shorten_what_was_asked_for() -> None:
    breaker = Breaker(half)
    breaker.refused(1, 2, Busy(), 2, 0.0)
    breaker.took()
    breaker.refused(2, 3, Busy(50.0), 1, 1.0)
    assert breaker.refused(3, 3, Busy(), 1, 2.0) == 51.0


def test_a_probe_that_was_lost_is_followed_by_another() -> None:
    breaker = Breaker(half)
    breaker.refused(1, 2, Busy(), 2, 0.0)
    breaker.took()
    breaker.let_go(2)  # it was none
    assert breaker.room(0, 1.0) == 0
    breaker.let_go(3)
    assert breaker.room(0, 1.0) == 1


def test_the_width_grows_by_one_for_a_round_until_it_bounds_nothing() -> None:
    breaker = Breaker(half)
    breaker.refused(1, 16, Busy(), 16, 0.0)
    breaker.took()
    breaker.succeeded(17, 1.0, 1, 16, 1.0)
    grown = []
    for _ in range(3):
        for _ in range(int(breaker.width.bound)):
            breaker.succeeded(18, 1.0, 8, 16, 1.0)
        grown.append(breaker.width.bound)
    assert all(8 + n - 0.2 < width < 9 + n for n, width in enumerate(grown, 1 - 1))
    for _ in range(200):
        breaker.succeeded(18, 1.0, 8, 16, 1.0)
    assert breaker.is_healthy


class Told(NamedTuple):
    ticket: int
    ok: bool
    seconds: float
    data: bytes  # what the service said: "busy", and how long, if it was


class AskingJob(Job, eq=False, gc=False):
    """A job that was refused if its worker says so."""

    def busy(self, _ending: Ending) -> Busy | None:
        word, _, seconds = _ending.data.decode().partition(" ")
        return Busy(float(seconds) if seconds else None) if word == "busy" else None


class Service:
    """A policy with one limit, whose service a test speaks for."""

    def __init__(self, lanes: int, serial: int, randoms: list[float]) -> None:
        self.policy = Policy(1)
        numbers = iter(randoms * 1000)
        self.breaker = Breaker(lambda: next(numbers))
        self.gate = Gate("account", 0, 0, self.breaker)
        self.lanes = [Lane(at, "host", (self.gate,), serial=at < serial) for at in range(lanes)]
        self.now = 0.0
        self.jobs: list[Job] = []
        self.running: list[Job] = []
        self.begun: list[Job] = []
        self.ended: list[Job] = []
        self.quiet_until = 0.0
        self.worker = 0
        self.put_back: list[PutBack] = []

    def submit(self, lane: int) -> None:
        job = AskingJob(len(self.jobs) + 1, self.lanes[lane % len(self.lanes)], Timing())
        self.jobs.append(job)
        self.policy.submit(job, self.now)
        self.settle()

    def settle(self) -> None:
        self.policy.dispatch(self.now)
        while self.policy.commands:
            for command in self.policy.take_commands():
                if isinstance(command, Start):
                    self.worker = command.worker
                    self.policy.ready(command.worker, self.now)
                    self.policy.dispatch(self.now)
                elif isinstance(command, Ship):
                    self.shipped(command.jobs)
                elif isinstance(command, Kill):
                    self.die()
                elif isinstance(command, PutBack):
                    self.put_back.append(command)
                elif isinstance(command, Fail):
                    self.ended.append(command.job)

    def shipped(self, jobs: list[Job]) -> None:
        for job in jobs:
            assert self.now >= self.quiet_until, "begun before the service allows it"
            self.running.append(job)
            if job not in self.begun:
                self.begun.append(job)
        if self.breaker.until is not None:
            probes = [job for job in self.running if self.breaker.is_probe(job.ticket)]
            assert len(probes) <= 1

    def say(self, at: int, ok: bool, words: str) -> None:
        if not self.running:
            return
        job = self.running.pop(at % len(self.running))
        if words.startswith("busy") and job.state is JobState.SHIPPED:  # the others are not heard
            self.quiet_until = max(self.quiet_until, self.now + float(words[5:] or 0))
        told = Told(job.ticket, ok, 0.1, words.encode())
        (ended,) = self.policy.answered(self.worker, [told], self.now)
        if ended is not None:
            self.ended.append(ended)
        self.settle()

    def cancel(self, at: int) -> None:
        job = self.jobs[at % len(self.jobs)]
        if self.policy.cancel(job, self.now):
            self.ended.append(job)
        self.settle()

    def die(self) -> None:
        """Lose the worker, and all that runs in it."""
        self.running.clear()
        self.policy.died(self.worker, 0, WorkerDied(7, signal=9), self.now)
        self.settle()

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.policy.tick(self.now)
        self.settle()

    def finish(self) -> None:
        """Serve everything that is left, as time passes."""
        for _ in range(20 * len(self.jobs) + 20):
            while self.running:
                self.say(0, True, "fine")
            wake = self.policy.next_wake()
            if not self.policy.queued or wake is None:
                break
            self.later(max(0.0, wake - self.now))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 5)),
        st.tuples(st.just("later"), st.sampled_from([0.0, 0.1, 1.0, 30.0])),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("die"), st.just(0)),
        st.tuples(st.just("fine"), st.integers(0, 9)),
        st.tuples(st.just("broken"), st.integers(0, 9)),
        st.tuples(st.just("busy"), st.integers(0, 9)),
        st.tuples(st.just("busy 5"), st.integers(0, 9)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    lanes=st.integers(1, 5),
    serial=st.integers(0, 5),
    randoms=st.lists(st.sampled_from([0.0, 0.3, 0.99]), min_size=1, max_size=5),
)
def test_nothing_is_lost_doubled_early_or_out_of_order(
    steps: list[tuple[str, float]], lanes: int, serial: int, randoms: list[float]
) -> None:
    service = Service(lanes, serial, randoms)
    for lane in range(6):
        service.submit(lane)
    for word, number in steps:
        if word == "later":
            service.later(number)
        elif word == "die":
            service.die()
        elif word in ("submit", "cancel"):
            getattr(service, word)(int(number))
        else:
            service.say(int(number), word == "fine", word)
    service.finish()
    assert sorted(job.id for job in service.ended) == [job.id for job in service.jobs]
    assert (service.gate.used, service.policy.queued, service.policy.running) == (0, 0, 0)
    assert all(job.setbacks <= SETBACKS + 1 for job in service.jobs)
    for each in service.lanes:
        if each.serial:
            ids = [job.id for job in service.begun if job.lane is each]
            assert ids == sorted(ids)


def test_a_turn_that_is_refused_again_and_again_fails() -> None:
    service = Service(1, 1, [0.5])
    service.submit(0)
    service.submit(0)
    for _ in range(SETBACKS + 1):
        assert not service.ended
        (job,) = service.running
        assert job.id == 1
        service.say(0, False, "busy")
        service.later((service.policy.next_wake() or service.now) - service.now)
    assert [job.id for job in service.ended] == [1]
    assert len(service.put_back) == SETBACKS
    assert [job.id for job in service.running] == [2]  # the next one is the probe
    service.say(0, False, "busy")  # there is no sign of life, so it is not put back
    assert [job.id for job in service.ended] == [1, 2]


def test_everybody_waits_and_goes_on() -> None:
    service = Service(20, 0, [0.0])
    for lane in range(20):
        service.submit(lane)
    assert len(service.running) == 20
    for _ in range(20):
        service.say(0, False, "busy 7")
    assert (service.running, len(service.put_back)) == ([], 20)
    assert {one.until for one in service.put_back} == {7.0}
    service.later(6.99)
    assert not service.running
    service.later(0.01)
    assert len(service.running) == 1
    service.say(0, True, "fine")
    assert len(service.running) == 10  # half of what was too much
    service.finish()
    assert len(service.ended) == 20
    assert all(job.setbacks == 1 for job in service.jobs)


def test_without_a_limit_or_without_a_word_of_it_a_failure_is_one() -> None:
    policy, timing = Policy(1), Timing()
    lane = Lane(1, "host")
    job = AskingJob(1, lane, timing)
    policy.submit(job, 0.0)
    policy.dispatch(0.0)
    policy.ready(1, 0.0)
    policy.dispatch(0.0)
    assert policy.answered(1, [Told(job.ticket, False, 0.1, b"busy 5")], 0.0) == [job]
    service = Service(1, 0, [0.5])
    service.submit(0)
    service.say(0, False, "broken")
    assert len(service.ended) == 1
    assert not service.put_back
