from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, JobState, Lane, Timing
from hmz_mp.core.timers import SWEEP, Timers


def job(ticket: int = 0) -> Job:
    made = Job(1, Lane(1, "call"), Timing())
    made.ticket = ticket
    return made


def test_nothing_is_due_of_nothing() -> None:
    assert Timers().next_time() is None
    assert list(Timers().due(1e9)) == []


@given(st.lists(st.floats(0, 100)), st.floats(0, 100))
def test_what_is_due_comes_in_order(times: list[float], now: float) -> None:
    timers = Timers()
    for time in times:
        timers.add(time, Gate("g"), 0, None)
    assert [entry.time for entry in timers.due(now)] == sorted(t for t in times if t <= now)
    assert timers.next_time() == min((t for t in times if t > now), default=None)


def test_those_of_one_time_come_in_the_order_of_their_setting() -> None:
    timers = Timers()
    gates = [Gate(str(at)) for at in range(5)]
    for gate in gates:
        timers.add(1.0, gate, 0, None)
    assert [entry.about for entry in timers.due(1.0)] == gates


def test_a_job_that_has_ended_is_dropped() -> None:
    timers = Timers()
    ended, lives = job(), job()
    timers.add(1.0, ended, 0, 5.0)
    timers.add(2.0, lives, 0, 5.0)
    ended.state = JobState.DONE
    assert timers.next_time() == 2.0
    assert [entry.about for entry in timers.due(3.0)] == [lives]


def test_a_timer_of_an_earlier_shipment_is_dropped() -> None:
    timers = Timers()
    retried = job(ticket=1)
    timers.add(1.0, retried, 1, 5.0)
    retried.ticket = 2
    timers.add(4.0, retried, 2, 5.0)
    assert [(entry.time, entry.ticket) for entry in timers.due(9.0)] == [(4.0, 2)]


def test_what_is_added_while_it_is_read_comes_if_it_is_due() -> None:
    timers = Timers()
    timers.add(1.0, Gate("first"), 0, None)
    seen = []
    for entry in timers.due(2.0):
        seen.append(entry.time)
        if len(seen) == 1:
            timers.add(1.5, Gate("due too"), 0, None)
            timers.add(2.5, Gate("later"), 0, None)
    assert seen == [1.0, 1.5]


def test_timers_of_jobs_that_ended_do_not_pile_up_behind_one_that_goes_on() -> None:
    timers = Timers()
    timers.add(1.0, job(), 0, 1.0)
    going = [job() for _ in range(SWEEP)]
    for one in going:
        timers.add(2.0, one, 0, 1.0)
    for _ in range(10 * SWEEP):
        over = job()
        timers.add(3.0, over, 0, 1.0)
        over.state = JobState.DONE
    assert len(timers) < 3 * SWEEP
    assert len(list(timers.due(2.0))) == 1 + SWEEP
    assert timers.next_time() is None


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1), st.randoms())
def test_a_sweep_loses_nothing_and_keeps_the_order(
    given: list[tuple[float, bool]], random: Random
) -> None:
    timers, left = Timers(), []
    timers._enough = 16
    for time, over in given * 40:
        about = job()
        about.state = JobState.DONE if over else JobState.QUEUED
        timers.add(time, about, 0, 1.0)
        if not over:
            left.append(time)
        if random.random() < 0.02:
            now = random.uniform(0, 20)
            assert [one.time for one in timers.due(now)] == sorted(t for t in left if t <= now)
            left = [t for t in left if t > now]
    assert timers.next_time() == min(left, default=None)
    assert [one.time for one in timers.due(100.0)] == sorted(left)
