from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hmz_mp.core.jobs import Job, Lane, Timing
from hmz_mp.core.machine import MachineMemory
from hmz_mp.core.policy import Policy
from hmz_mp.core.watch import Watch


class Handle:
    def __init__(self, time: float, callback: Callable[[], None]) -> None:
        self.time, self.callback, self.cancelled = time, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """A driver of which only the timers are asked."""

    def __init__(self) -> None:
        self.timers: list[Handle] = []

    def call_at(self, time: float, callback: Callable[[], None]) -> Handle:
        self.timers.append(Handle(time, callback))
        return self.timers[-1]

    def fire(self) -> None:
        (timer,) = (one for one in self.timers if not one.cancelled)
        self.timers.clear()
        timer.callback()


class Engine:
    bounded = 0

    def pid(self, worker: int) -> int | None:
        return None

    def resident_memory(self, worker: int, *, tree: bool = False) -> int:
        return 0

    def bound_outputs(self) -> None:
        self.bounded += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hung() -> list[tuple[int, float]]:
    return []


@pytest.fixture
def watch(clock: Clock, hung: list[tuple[int, float]]) -> Watch:
    driver: Any = clock
    engine: Any = Engine()
    watch = Watch(driver, Policy(2), 60.0, lambda *one: hung.append(one), lambda: None)
    watch.engine = engine
    watch.memory = lambda: MachineMemory(100, 50)
    return watch


def test_it_looks_while_there_is_work_then_seldom_then_never(watch: Watch, clock: Clock) -> None:
    policy = watch._policy
    job = Job(1, Lane(1, "call"), Timing())
    policy.submit(job, 0.0)
    watch.wake()
    clock.fire()
    assert len(clock.timers) == 1  # there is work
    policy.dispatch(0.0)
    (start,) = policy.commands
    policy.cancel(job, 0.0)
    clock.fire()
    assert watch._interval == 5.0  # there are workers
    policy.not_started(start.worker)  # type: ignore[union-attr]  # a Start
    clock.fire()
    assert clock.timers == []


def test_a_turn_with_a_limit_has_it_look_sooner(watch: Watch, clock: Clock) -> None:
    watch.wake()
    watch.wake()
    assert len(clock.timers) == 1
    watch.wake(limited=True)
    watch.wake(limited=True)
    watch.wake()
    assert [one.cancelled for one in clock.timers] == [True, False]
    assert watch._interval == 0.1
    watch.stop()
    assert [one.cancelled for one in clock.timers] == [True, True]


def test_a_start_that_takes_too_long_is_said_once(
    watch: Watch, clock: Clock, hung: list[tuple[int, float]]
) -> None:
    policy = watch._policy
    watch._start_timeout = 0.0
    worker = policy.roster.start("call")
    watch.started(worker.id)
    watch.started(99)  # gone already
    watch.wake()
    clock.fire()
    clock.fire()
    assert hung == [(worker.id, 0.0)]


def test_turns_are_held_back_and_let_go(watch: Watch, clock: Clock) -> None:
    policy = watch._policy
    policy.submit(Job(1, Lane(1, "call"), Timing()), 0.0)
    watch.memory = lambda: MachineMemory(100, 2)
    watch.wake()
    clock.fire()
    assert policy.held
    watch.memory = lambda: MachineMemory(100, 6)
    clock.fire()
    assert not policy.held
