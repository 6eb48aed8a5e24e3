"""An engine without processes: workers that are made up, in this process and in virtual time.

It keeps what `hmz_mp.engines.protocol` promises, and reports honestly: what workers do takes time,
what they say arrives later and in order, a conditional kill looks at what runs when it gets there.
Calls travel as they do to real workers, so a function that a worker was not sent is not there.

A plain function runs when its call begins; for one in the ``script`` something else is done, that
takes time, hangs, or ends its worker. Faults are the test's to make: `die`, `lose`, `give_back`,
``start_faults``, `set_capacity`, `fail`.
"""

from __future__ import annotations

import errno
import signal as signals
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import anyio

from hmz_mp.core.jobs import Kind
from hmz_mp.core.loop import Driver
from hmz_mp.core.shipment import Shipment
from hmz_mp.engines.packing import pack
from hmz_mp.engines.protocol import OLDEST, EngineEvents
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from tests.fakes.virtual_time import Agenda
from tests.fakes.worker import FOREVER, Death, FakeCall, FakeWorker, Script

__all__ = ["FOREVER", "Death", "FakeCall", "FakeEngine", "Script", "StartFault"]

_RETIRE_GRACE = 5.0  # seconds that workers have to exit when the pool is left

StartFault = Literal["", "no start", "refused", "initializer", "exit", "hang"]


class _Line:
    """The way to one worker and back."""

    # The whole state: which functions were sent; the reports on their way; when the last of what
    # was sent arrives, and the last of what is reported is heard.
    def __init__(self) -> None:
        self.known: set[int] = set()
        self.reports: deque[Callable[[], None]] = deque()
        self.arrives = 0.0
        self.heard = 0.0


class FakeEngine:
    """Runs one pool's workers in name only. What takes how long may be changed at any time."""

    # The whole state: the workers whose end was not heard of, with the ways to them; what happens
    # when; and for tests what the coordinator did wrong, and what happened how often.
    def __init__(
        self,
        driver: Driver,
        events: EngineEvents,
        clock: Callable[[], float],
        script: Script,
        *,
        initializer: bytes = b"",
    ) -> None:
        self.agenda = Agenda(driver, clock, self._settle)
        self.events = events
        self.script = script
        self._initializer = initializer
        self.start_seconds = 0.002
        self.call_seconds = 1e-5  # of a plain function
        self.there_seconds = 0.0  # for what is sent to a worker to arrive
        self.back_seconds = 0.0  # for what a worker sends
        self.kill_seconds = 0.0  # until a kill is carried out
        self.reap_seconds = 0.0  # until an end, or that a kill missed, is heard
        self.start_faults: deque[StartFault] = deque()  # of workers started next, one for each
        self.capacity: int | None = None
        self.faults: list[str] = []
        self.missed = self.given_back = 0  # kills in vain; calls that came back when told so
        self.workers: dict[int, FakeWorker] = {}
        self._lines: dict[int, _Line] = {}
        self._used: set[int] = set()
        self._reaped = 0.0  # when the last end is heard
        self._unsettled = False
        self._changed = anyio.Event()

    async def open(self) -> None:
        """Begin."""

    def _check(self, holds: bool, wrong: str) -> None:
        if not holds:
            self.faults.append(wrong)

    def note_unknown(self, one: FakeWorker, sent: wire.Call) -> None:
        """Take note of a call that names a function which is not there, and so fails."""
        self.faults.append(f"function {sent.function}, which worker {one.number} has not, is named")

    # What the coordinator asks.

    def start_worker(self, worker: int, kind: Kind) -> None:
        """Start a worker, or not, as the next fault says."""
        self._check(worker not in self._used, f"worker {worker} is started twice")
        self._used.add(worker)
        alive = [one for one in self.workers.values() if one.kind == kind and not one.leaving]
        room = self.capacity is None or len(alive) < self.capacity
        self._check(room, f"worker {worker} is one more than there can be")
        fault = self.start_faults.popleft() if self.start_faults else ""
        if fault == "no start":
            raise OSError(errno.EMFILE, "no descriptor is left")
        one = self.workers[worker] = FakeWorker(worker, kind, self)
        self._lines[worker] = _Line()
        self.agenda.enter(self.start_seconds, partial(one.set_up, self._initializer, fault))

    def ship(self, worker: int, jobs: Sequence[Shipment]) -> None:
        """Send calls to a worker, with the functions it does not have yet."""
        one = self.workers.get(worker)
        self._check(one is not None, f"calls are shipped to worker {worker}, which is dead")
        if one is None:
            return
        self._check(one.up, f"calls are shipped to worker {worker}, which is not set up")
        self._check(not one.leaving, f"calls are shipped to worker {worker}, which is to exit")
        known = self._lines[worker].known
        for body, buffers in pack(jobs, one.kind, known, _NoSharedMemory()):
            self._post(worker, partial(one.take_calls, body, list(buffers)))

    def forget(self, functions: Sequence[int], sessions: Sequence[int]) -> None:
        """Have workers forget functions and sessions."""
        for worker, one in self.workers.items():
            self._lines[worker].known.difference_update(functions)
            self._post(worker, partial(one.forget, list(functions), list(sessions)))

    def cancel_turn(self, worker: int, ticket: int) -> None:
        """Cancel one turn of a host worker."""
        if (one := self.workers.get(worker)) is not None:
            self._post(worker, partial(one.cancel, ticket))

    def tell_turn(self, worker: int, ticket: int, data: bytes) -> None:
        """Tell one running turn of a host worker something."""
        if (one := self.workers.get(worker)) is not None:
            self._post(worker, partial(one.tell, ticket, data))

    def retire(self, worker: int) -> None:
        """Let a worker finish what it has and exit."""
        if (one := self.workers.get(worker)) is not None:
            one.leaving = True
            self._post(worker, one.retire)

    def kill(self, worker: int, only: int) -> None:
        """End a worker, if the call of ticket ``only`` is what it runs when the kill gets there."""
        self.agenda.enter(self.kill_seconds, partial(self._kill, worker, only))

    def follow_paths(self) -> None:
        """Nothing: workers have this process's."""

    def prepare_by_value(self) -> None:
        """Nothing: cloudpickle is here."""

    def bound_outputs(self) -> None:
        """Nothing: they are in memory as it is."""

    def pid(self, worker: int) -> int | None:
        """Return a number that is no process's."""
        one = self.workers.get(worker)
        return one.pid if one is not None and one.up else None

    def resident_memory(self, worker: int, *, tree: bool = False) -> int:
        """Return the bytes that a worker's calls say they hold."""
        one = self.workers.get(worker)
        return sum(call.memory for call in one.running.values()) if one is not None else 0

    def programs(self, worker: int) -> Mapping[int, int]:
        """Return nothing: there is no program."""
        return {}

    async def close(self) -> None:
        """Let workers exit; then end what is left."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_RETIRE_GRACE):
                for worker in list(self.workers):
                    self.retire(worker)
                while self.workers:
                    await self._changed.wait()
            await self.kill_all()

    async def kill_all(self) -> None:
        """End every worker."""
        for one in list(self.workers.values()):
            one.end(signal=signals.SIGKILL)
        while self.workers:
            self.agenda.hurry()  # their ends are among what is to happen
        self.agenda.clear()

    # What is on its way.

    def _post(self, worker: int, take: Callable[[], None]) -> None:
        """Have something arrive at a worker, after all that was sent to it before."""
        line, arrive = self._lines[worker], partial(self.workers[worker].arrive, take)
        line.arrives = self.agenda.enter(self.there_seconds, arrive, not_before=line.arrives)

    def send(self, one: FakeWorker, report: Callable[[], None]) -> None:
        """Have a report heard, after all that this worker sent before."""
        line = self._lines[one.number]
        line.reports.append(report)
        hear = partial(self._hear, line)
        line.heard = self.agenda.enter(self.back_seconds, hear, not_before=line.heard)

    def _hear(self, line: _Line) -> None:
        if line.reports:  # or it was heard with the worker's end
            self._unsettled = True
            line.reports.popleft()()

    def _settle(self) -> None:
        if self._unsettled:
            self._unsettled = False
            self.events.settle()

    def _kill(self, worker: int, only: int) -> None:
        one = self.workers.get(worker)
        if one is None or one.ended:
            return
        if only and one.runs != only:
            self._report(partial(self._missed, worker))
        else:
            one.end(signal=signals.SIGTERM)

    def reap(self, one: FakeWorker, runs: int, error: WorkerDied) -> None:
        """Have a worker's end heard, after what it had answered and said."""
        if runs == OLDEST:
            self._lines[one.number].reports.clear()
        self._report(partial(self._died, one, runs, error))

    def _report(self, report: Callable[[], None]) -> None:
        """Have something of a worker's process heard, beside what the worker itself says."""
        self._reaped = self.agenda.enter(self.reap_seconds, report, not_before=self._reaped)

    def _missed(self, worker: int) -> None:
        self.missed += 1
        self.events.worker_missed(worker)

    def _died(self, one: FakeWorker, runs: int, error: WorkerDied) -> None:
        line = self._lines[one.number]
        line.reports.append(one.answers())
        while line.reports:
            self._hear(line)
        del self.workers[one.number], self._lines[one.number]
        self.events.worker_died(one.number, runs, error)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # What tests have happen.

    def die(
        self,
        worker: int,
        *,
        signal: int | None = signals.SIGKILL,
        exitcode: int | None = None,
    ) -> None:
        """End a worker, as by its own fault or somebody else's."""
        if (one := self.workers.get(worker)) is not None:
            one.end(signal=signal, exitcode=exitcode)

    def lose(self, worker: int) -> None:
        """Lose a worker with its machine: what it had not sent is lost too, and what it ran."""
        if (one := self.workers.get(worker)) is not None:
            one.end(lost=True)

    def give_back(self, worker: int) -> None:
        """Have a worker give back what it has not begun, if it has a running call."""
        if (one := self.workers.get(worker)) is not None:
            self.given_back += one.give_back()

    def set_capacity(self, workers: int) -> None:
        """Have as many workers of each kind from now on; those that there are stay."""
        self.capacity = workers
        self.events.capacity_changed(workers)

    def fail(self, reason: str, said: str = "") -> None:
        """Be able to start no worker any more."""
        self.events.engine_failed(reason, said)

    def is_alive(self, pid: int) -> bool:
        """Whether a worker of that number has not ended."""
        return any(one.pid == pid and not one.ended for one in self.workers.values())


class _NoSharedMemory:
    """Everything goes with the message."""

    def put(self, parts: Sequence[Buffer]) -> list[int] | None:
        """Take nothing."""
