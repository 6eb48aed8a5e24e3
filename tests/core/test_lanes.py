from __future__ import annotations

import pytest

from hmz_mp.core.gates import MINUTE, Gate
from hmz_mp.core.jobs import Job, JobState, Kind, Lane, Timing, Worker
from hmz_mp.core.lanes import WaitingLanes, head_of
from hmz_mp.core.timers import Timers


def lane(number: int, *gates: Gate, kind: Kind = "call", serial: bool = False) -> Lane:
    """Return a lane with one job."""
    made = Lane(number, kind, gates, serial=serial)
    made.jobs.append(Job(number, made, Timing()))
    return made


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def lanes(timers: Timers) -> WaitingLanes:
    return WaitingLanes(timers)


def popped(lanes: WaitingLanes, kind: Kind = "call") -> list[int]:
    found = []
    while (one := lanes.ready[kind].pop()) is not None:
        found.append(one.id)
    return found


def test_the_head_is_the_first_that_has_not_ended() -> None:
    one = Lane(1, "call")
    jobs = [Job(number, one, Timing()) for number in range(3)]
    one.jobs.extend(jobs)
    jobs[0].state = jobs[1].state = JobState.DONE
    assert head_of(one) is jobs[2]
    jobs[2].state = JobState.DONE
    assert head_of(one) is None
    assert not one.jobs


def test_a_lane_is_woken_once(lanes: WaitingLanes) -> None:
    first, second = lane(1), lane(2)
    for one in (first, second, first):
        lanes.wake(one)
    assert popped(lanes) == [1, 2]
    lanes.wake(first)
    lanes.wake(second, first=True)
    assert popped(lanes) == [2, 1]


def test_what_has_nothing_to_run_is_not_woken(lanes: WaitingLanes) -> None:
    busy = lane(1, serial=True)
    busy.busy = True
    lanes.wake(busy)
    lanes.wake(Lane(2, "call"))
    assert popped(lanes) == []


def test_a_lane_that_lets_go_wakes_itself_and_who_waits_at_its_gates(lanes: WaitingLanes) -> None:
    gate = Gate("narrow", 1)
    running, waiting = lane(1, gate, serial=True), lane(2, gate)
    gate.take(0.0)
    running.busy = True
    assert lanes.blocking(waiting, 0.0) is gate
    lanes.wait_for(waiting, gate, 0.0)
    assert (waiting.place, gate.count_waiting()) == (gate, 1)
    lanes.leave(running, 0.0)
    assert (gate.used, gate.count_waiting(), waiting.woken_by) == (0, 0, gate)
    assert popped(lanes) == [2, 1]


def test_a_place_that_is_not_taken_is_passed_on(lanes: WaitingLanes) -> None:
    gate = Gate("narrow", 1)
    gate.take(0.0)
    waiting = [lane(number, gate) for number in (1, 2)]
    for one in waiting:
        lanes.wait_for(one, gate, 0.0)
    gate.used = 0
    lanes.wake_gate(gate, 0.0)
    assert popped(lanes) == [1]
    lanes.pass_on(waiting[0], 0.0)
    assert popped(lanes) == [2]
    assert waiting[0].woken_by is None


def test_who_is_woken_in_vain_keeps_its_place(lanes: WaitingLanes) -> None:
    gate = Gate("narrow", 1)
    gate.take(0.0)
    waiting = [lane(number, gate) for number in (1, 2)]
    for one in waiting:
        lanes.wait_for(one, gate, 0.0)
    gate.used = 0
    lanes.wake_gate(gate, 0.0)
    gate.take(0.0)  # somebody was faster
    assert popped(lanes) == [1]
    lanes.wait_for(waiting[0], gate, 0.0)
    assert [one.id for one in gate.waiting["call"]] == [1, 2]


def test_one_of_each_kind_is_woken(lanes: WaitingLanes) -> None:
    gate = Gate("narrow", 1)
    gate.take(0.0)
    for one in (lane(1, gate), lane(2, gate), lane(3, gate, kind="host")):
        lanes.wait_for(one, gate, 0.0)
    gate.used = 0
    lanes.wake_gate(gate, 0.0)
    assert (popped(lanes), popped(lanes, "host")) == ([1], [3])
    assert lanes.wakes == 2


def test_a_full_gate_wakes_nobody(lanes: WaitingLanes) -> None:
    gate = Gate("narrow", 1)
    gate.take(0.0)
    lanes.wait_for(lane(1, gate), gate, 0.0)
    lanes.wake_gate(gate, 0.0)
    assert popped(lanes) == []


def test_the_minute_wakes_as_many_as_may_begin(lanes: WaitingLanes, timers: Timers) -> None:
    gate = Gate("rated", 0, per_minute=2)
    for time in (0.0, 1.0):
        gate.take(time)
    for number in range(3):
        lanes.wait_for(lane(number, gate), gate, 2.0)
    assert timers.next_time() == MINUTE
    assert [entry.about for entry in timers.due(MINUTE + 1)] == [gate]
    lanes.minute_passed(gate, MINUTE + 1)
    assert popped(lanes) == [0, 1]
    assert gate.count_waiting() == 1


def test_sessions_wait_at_their_worker(lanes: WaitingLanes) -> None:
    worker, gate = Worker(1, "call"), Gate("narrow", 1)
    gate.take(0.0)
    other = lane(3, gate)
    lanes.wait_for(other, gate, 0.0)
    gate.used = 0
    sessions = [lane(number, gate, serial=True) for number in (1, 2)]
    sessions[0].woken_by = gate
    for one in sessions:
        lanes.wait_at(one, worker, 0.0)
    assert popped(lanes) == [3]  # the place that woke it is another's
    lanes.wake_next(worker)
    assert popped(lanes) == [1]
    lanes.wake_all(worker)
    assert popped(lanes) == [2]
    assert not worker.waiting


def test_a_session_that_does_not_take_its_idle_worker_wakes_the_next(lanes: WaitingLanes) -> None:
    worker = Worker(1, "call")
    first, second, third = (lane(number, serial=True) for number in (1, 2, 3))
    for one in (first, second, third):
        one.pinned = worker
    for one in (second, third):
        lanes.wait_at(one, worker, 0.0)
    lanes.pass_on_worker(Lane(9, "call"))  # of no worker
    assert popped(lanes) == []
    worker.inflight[7] = second.jobs[0]
    lanes.pass_on_worker(first)  # what runs there wakes the next when it ends
    assert popped(lanes) == []
    worker.inflight.clear()
    lanes.pass_on_worker(first)
    assert popped(lanes) == [2]
