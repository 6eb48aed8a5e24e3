"""What a pool looks at from time to time: how long starts take, and who holds how much memory.

Part of the coordinator, on its loop. It looks while there is work, and for as long as workers are
there seldom; it only looks, and asks the policy or the engine to act.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Job, Worker, WorkerState
from hmz_mp.core.loop import Driver, Handle
from hmz_mp.core.machine import MachineMemory, machine_memory
from hmz_mp.core.policy import Policy
from hmz_mp.core.programs import ProgramRoom
from hmz_mp.errors import MemoryExceeded

if TYPE_CHECKING:
    from hmz_mp.engines.protocol import Engine

__all__ = ["Watch"]

_LIMITED = 0.1  # seconds between looks while turns with a memory limit run
_BUSY = 0.5  # while others do
_IDLE = 5.0  # while none does
_PROGRAMS_LEAST = 1.0  # between looks at agents' programs while no turn waits for them, and always
_PROGRAMS = 50.0  # times as long as a look takes: 0.1 ms for a program, of which there are hundreds
_IDLE_LEAST = 256 << 20  # what an idle worker may hold at least

_log = logging.getLogger("hmz_mp")


class Watch:
    """Looks after one pool's workers."""

    # The whole state: the timer, when workers were started, which of those whose turns share
    # them held more than one of these may at the last look, and what bounds agents' programs.
    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        start_timeout: float,
        start_hung: Callable[[int, float], None],
        acted: Callable[[], None],
    ) -> None:
        self.engine: Engine
        self.memory: Callable[[], MachineMemory] = machine_memory
        self.idle_bound = 0  # bytes; 0 until it is known
        self._programs: ProgramRoom | None = None
        self._programs_due = 0.0
        self._driver = driver
        self._policy = policy
        self._start_timeout = start_timeout
        self._start_hung = start_hung
        self._acted = acted
        self._started: dict[int, float] = {}
        self._over: set[int] = set()
        self._timer: Handle | None = None
        self._interval = 0.0

    def started(self, worker: int) -> None:
        """Begin to wait for a worker to be set up."""
        self._started[worker] = monotonic()

    def bound_programs(self, gate: Gate) -> None:
        """Keep a gate to as many turns as there may be agent programs, from now on."""
        self._programs = ProgramRoom(gate)
        gate.capacity = self._programs.room({}, self.memory())

    def wake(self, *, limited: bool = False) -> None:
        """Look soon: there is work. ``limited``: a turn with a memory limit begins."""
        interval = _LIMITED if limited else min(_BUSY, self._start_timeout)
        if self._timer is None or interval < self._interval:
            self._arm(interval)

    def stop(self) -> None:
        """Leave no timer on the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, interval: float) -> None:
        self.stop()
        self._interval = interval
        self._timer = self._driver.call_at(monotonic() + interval, self._look)

    def _look(self) -> None:
        self._timer = None
        policy = self._policy
        self._look_at_starts()
        limited = self._look_at_turns()
        if policy.running or policy.queued:
            self._look_at_machine()
            self._look_at_programs()
        self._look_at_idle()
        self.engine.bound_outputs()
        if limited or policy.running or policy.queued or self._started:
            self.wake(limited=limited)
        elif policy.roster.workers:
            self._arm(_IDLE)
        self._acted()

    def _look_at_starts(self) -> None:
        workers = self._policy.roster.workers
        now = monotonic()
        for worker, began in list(self._started.items()):
            known = workers.get(worker)
            if known is None or known.state is not WorkerState.STARTING:
                del self._started[worker]
            elif now - began >= self._start_timeout:
                del self._started[worker]
                self._start_hung(worker, self._start_timeout)

    def _look_at_turns(self) -> bool:
        """End the turns that hold more than they may; return whether any has a limit.

        Which of those that share a process holds what cannot be known: the newest is ended first,
        and the others stay if that was enough.
        """
        limited = False
        for worker in list(self._policy.roster.workers.values()):
            jobs = _running(worker)
            if not any(job.memory for job in jobs):
                continue
            limited = True
            used = self.engine.resident_memory(worker.id, tree=True)
            over = [job for job in jobs if job.memory is not None and used > job.memory]
            if not over or any(job.stopping for job in jobs):
                self._over.discard(worker.id)
            elif worker.kind == "host" and worker.id not in self._over:
                self._over.add(worker.id)  # what ended a moment ago may be about to let go of it
            else:
                self._over.discard(worker.id)
                limit = over[-1].memory or 0
                self._policy.stop(over[-1], MemoryExceeded(limit, used), monotonic())
        return limited

    def _look_at_machine(self) -> None:
        """Begin no more turns beside those that run while the machine is short of memory."""
        memory = self.memory()
        short = memory.is_short()
        if short == self._policy.held:
            return
        if short:
            _log.warning(
                "memory is short: %d MiB of %d MiB are available; new turns wait for more",
                memory.available >> 20,
                memory.total >> 20,
            )
        else:
            _log.warning("memory is available again: waiting turns begin")
        self._policy.hold(short)

    def _look_at_programs(self) -> None:
        """Have as many turns of agent programs as memory bears."""
        room, now = self._programs, monotonic()
        if room is None or now < self._programs_due:
            return
        hosts = [one for one in self._policy.roster.workers.values() if one.kind == "host"]
        trees: dict[int, int] = {}
        for host in hosts:
            trees |= self.engine.programs(host.id)
        memory = self.memory()
        waiting = any(room.gate.waiting.values())
        took = monotonic() - now
        self._programs_due = now + max(_PROGRAMS * took, 0.0 if waiting else _PROGRAMS_LEAST)
        self._policy.resize(room.gate, room.room(trees, memory), now)
        words = room.words(memory)
        if words is not None:
            _log.warning("%s", words)

    def _look_at_idle(self) -> None:
        """Replace idle workers that have grown large."""
        idle = [
            one
            for one in self._policy.roster.workers.values()
            if one.state is WorkerState.READY and not one.inflight and not one.sessions
        ]
        if idle and not self.idle_bound:
            share = self.memory().total // (4 * max(1, self._policy.roster.limit))
            self.idle_bound = max(_IDLE_LEAST, share)
        for worker in idle:
            if self.engine.resident_memory(worker.id) > self.idle_bound:
                self._policy.retire_idle(worker.id)


def _running(worker: Worker) -> list[Job]:
    """Return the turns that run in a worker, in the order in which they began."""
    jobs = list(worker.inflight.values())
    return jobs if worker.kind == "host" else jobs[:1]
