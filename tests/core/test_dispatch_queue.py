from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.core.dispatch_queue import ReadyQueue
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Lane, Timing


def lane(number: int, priority: int = 0, *, jobs: int = 1, gate: Gate | None = None) -> Lane:
    made = Lane(number, "call", (gate,) if gate is not None else (), priority=priority)
    made.jobs.extend(Job(at, made, Timing()) for at in range(jobs))
    return made


def popped(queue: ReadyQueue) -> list[int]:
    found = []
    while (one := queue.pop()) is not None:
        found.append(one.id)
    return found


def test_an_empty_queue() -> None:
    queue = ReadyQueue()
    assert not queue
    assert queue.pop() is None
    assert queue.runnable(5, 0.0) == 0


def test_the_highest_priority_first_and_each_in_turn() -> None:
    queue = ReadyQueue()
    for number, priority in enumerate([0, 5, -3, 5, 0]):
        queue.append(lane(number, priority))
    assert queue
    assert popped(queue) == [1, 3, 0, 4, 2]
    assert not queue


def test_first_is_before_those_of_its_priority() -> None:
    queue = ReadyQueue()
    queue.append(lane(1))
    queue.append(lane(2), first=True)
    queue.append(lane(3, 1))
    assert popped(queue) == [3, 2, 1]


def test_a_lane_knows_where_it_stands() -> None:
    queue = ReadyQueue()
    one = lane(1)
    queue.append(one)
    assert one.place is queue
    assert queue.pop() is one
    assert one.place is None


def test_runnable_counts_what_gates_let_through() -> None:
    queue = ReadyQueue()
    queue.append(lane(1, jobs=10, gate=Gate("three", 3)))
    queue.append(lane(2, jobs=2))
    session = Lane(3, "call", serial=True)
    session.jobs.extend(Job(at, session, Timing()) for at in range(9))
    queue.append(session)
    assert queue.runnable(100, 0.0) == 3 + 2 + 1
    assert queue.runnable(4, 0.0) >= 4


@given(st.lists(st.integers(-2, 2), max_size=40))
def test_nothing_is_lost(priorities: list[int]) -> None:
    queue = ReadyQueue()
    for number, priority in enumerate(priorities):
        queue.append(lane(number, priority))
    wanted = sorted(range(len(priorities)), key=lambda at: (-priorities[at], at))
    assert popped(queue) == wanted
