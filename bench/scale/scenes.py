"""What one operation of the policy costs where it has much to look at: ``n`` workers, or lanes.

Each scene sets a policy up, and returns a step to be repeated. A step is a turn from its submission
to its end, or what its scene says. Imported by the command; it knows nothing of the simulation.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from bench.scale.world import Ended
from hmz_mp.core.commands import Ship, Start
from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Kind, Lane, Timing
from hmz_mp.core.policy import Policy

__all__ = ["SCENES", "measure"]

LONG = 1.0  # seconds that each call takes: none is shipped ahead
STEPS = 2000


class Pool:
    """A policy, and what it has shipped and not heard of."""

    def __init__(self, workers: int) -> None:
        self.policy = Policy(workers)
        self.now = 0.0
        self.shipped: dict[int, tuple[int, Job]] = {}  # by ticket, the oldest first
        self.timing = Timing()
        self.timing.note(LONG)
        self._last = 0

    def submit(self, lane: Lane, *, timeout: float | None = None) -> None:
        self._last += 1
        self.policy.submit(Job(self._last, lane, self.timing, timeout=timeout), self.now)

    def decide(self) -> None:
        """Make one step of a loop; workers are ready at once."""
        policy = self.policy
        policy.tick(self.now)
        policy.dispatch(self.now)
        while commands := policy.take_commands():
            for command in commands:
                if isinstance(command, Ship):
                    for job in command.jobs:
                        self.shipped[job.ticket] = (command.worker, job)
                elif isinstance(command, Start):
                    policy.ready(command.worker, self.now)
            policy.dispatch(self.now)
        policy.next_wake()

    def answer(self, ticket: int) -> None:
        worker, _ = self.shipped.pop(ticket)
        self.policy.answered(worker, [Ended(ticket, True, LONG)], self.now)

    def answer_oldest(self) -> None:
        self.answer(next(iter(self.shipped)))

    def fill(self, count: int, kind: Kind = "call") -> Lane:
        """Have so many turns in flight."""
        lane = Lane(1, kind)
        for _ in range(count):
            self.submit(lane)
        self.decide()
        assert len(self.shipped) == count
        return lane


def hundred_short(n: int) -> Callable[[], None]:
    """A hundred short turns that travel together, on one of n workers, where nothing else is."""
    pool = Pool(n)
    pool.fill(n)
    while pool.shipped:
        pool.answer_oldest()
    short = Lane(2, "call")
    pool.timing = Timing()
    pool.timing.note(1e-6)

    def step() -> None:
        for _ in range(100):
            pool.submit(short)
        pool.decide()
        worker = next(iter(pool.shipped.values()))[0]
        endings = [Ended(ticket, True, 1e-6) for ticket in pool.shipped]
        pool.shipped.clear()
        pool.policy.answered(worker, endings, pool.now)
        pool.decide()

    return step


def idle_workers(n: int) -> Callable[[], None]:
    """One turn after the other, beside n idle workers."""
    pool = Pool(n)
    lane = pool.fill(n)
    while pool.shipped:
        pool.answer_oldest()

    def step() -> None:
        pool.submit(lane)
        pool.decide()
        pool.answer_oldest()
        pool.decide()

    return step


def busy_workers(n: int) -> Callable[[], None]:
    """A turn ends and the next begins, on n workers that are busy, with 10 n turns queued."""
    pool = Pool(n)
    lane = pool.fill(n)
    for _ in range(10 * n):
        pool.submit(lane)

    def step() -> None:
        pool.submit(lane)
        pool.answer_oldest()
        pool.decide()

    return step


def idle_sessions(n: int) -> Callable[[], None]:
    """A turn of one of n sessions, that have a worker each, and have been idle for long."""
    pool = Pool(n)
    sessions = [Lane(number, "call", serial=True) for number in range(n)]
    for session in sessions:
        pool.submit(session)
    pool.decide()
    while pool.shipped:
        pool.answer_oldest()
    pool.now += 1000.0
    at = 0

    def step() -> None:
        nonlocal at
        at = (at + 1) % min(n, 10)
        pool.submit(sessions[at])
        pool.decide()
        pool.answer_oldest()
        pool.decide()

    return step


def host_turns(n: int) -> Callable[[], None]:
    """An agent's turn ends and the next begins, beside 10 n others in flight."""
    pool = Pool(n)
    lane = pool.fill(10 * n, "host")

    def step() -> None:
        pool.submit(lane)
        pool.answer_oldest()
        pool.decide()

    return step


def starting(n: int) -> Callable[[], None]:
    """A worker of n that are being started is ready, and begins the first turn of a session."""
    pool = Pool(2 * (n + STEPS))
    for number in range(n + STEPS):
        pool.submit(Lane(number, "call", serial=True))
    policy = pool.policy
    policy.dispatch(0.0)
    policy.take_commands()
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        policy.ready(number, 0.0)
        policy.tick(0.0)
        policy.dispatch(0.0)
        policy.take_commands()
        policy.next_wake()

    return step


def lanes_at_a_gate(n: int) -> Callable[[], None]:
    """A turn ends and the next begins, where n batches wait for one limit."""
    pool = Pool(10)
    gate = Gate("limit", 5)
    for number in range(n):
        lane = Lane(number, "call", (gate,))
        for _ in range(1 + STEPS // n):
            pool.submit(lane)
    pool.decide()

    def step() -> None:
        pool.answer_oldest()
        pool.decide()

    return step


def behind_a_long_one(n: int) -> Callable[[], None]:
    """A turn with a timeout, while one that began before n others goes on."""
    pool = Pool(2)
    lane = Lane(1, "call")
    pool.submit(lane, timeout=1e6)
    pool.decide()
    (long,) = pool.shipped

    def step() -> None:
        pool.submit(lane, timeout=1e6)
        pool.decide()
        pool.answer(next(ticket for ticket in pool.shipped if ticket != long))

    for _ in range(n):
        step()
    return step


def cancelled(n: int) -> Callable[[], None]:
    """A turn, where n that were cancelled are queued at a limit that is taken."""
    pool = Pool(2)
    gate, lane = Gate("limit", 1), Lane(1, "call")
    limited = Lane(2, "call", (gate,))
    pool.submit(limited)
    pool.decide()
    (long,) = pool.shipped
    for number in range(n):
        job = Job(-number, limited, pool.timing)
        pool.policy.submit(job, 0.0)
        pool.policy.cancel(job, 0.0)

    def step() -> None:
        pool.submit(lane)
        pool.decide()
        pool.answer(next(ticket for ticket in pool.shipped if ticket != long))

    return step


SCENES = (
    hundred_short, busy_workers, idle_workers, idle_sessions, host_turns, starting, lanes_at_a_gate,
    behind_a_long_one, cancelled,
)  # fmt: skip


def measure(scene: Callable[[int], Callable[[], None]], n: int, steps: int = STEPS) -> float:
    """Return the seconds of CPU that a step of a scene takes: the median of ten parts of them.

    The collector does not run meanwhile.
    """
    step = scene(n)
    gc.collect()
    gc.disable()
    try:
        return statistics.median(_timed(step, max(1, steps // 10)) for _ in range(10))
    finally:
        gc.enable()


def _timed(step: Callable[[], None], steps: int) -> float:
    began = time.thread_time_ns()
    for _ in range(steps):
        step()
    return (time.thread_time_ns() - began) * 1e-9 / steps
