"""A pool over the fake engine, and what is known of each of its turns beside what the pool says.

`test_histories` makes things happen to it; this notes what ran where and when, what was shipped and
what came of it, and says what is wrong with that.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import pytest

from hmz_mp import Pool
from hmz_mp.core.breaker import Busy
from hmz_mp.core.caller import Caller
from hmz_mp.core.coordinator import Coordinator
from hmz_mp.core.gates import MINUTE
from hmz_mp.core.jobs import Kind
from hmz_mp.core.loop import Driver
from hmz_mp.core.machine import MachineMemory
from hmz_mp.core.session import Session
from hmz_mp.core.shipment import Shipment
from hmz_mp.engines.choice import EngineOptions
from hmz_mp.engines.protocol import OLDEST
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from tests.contract.submitted import LOOSE, Call, How, Run
from tests.fakes.engine import FOREVER, Death, FakeCall, FakeEngine
from tests.fakes.virtual_time import VirtualClock, VirtualLoop, the_pools_clock
from tests.fakes.worker import FakeWorker

__all__ = ["History"]

_USUAL = [0.0, 1e-6, 1e-5, 1e-5, 1e-4, 1e-4, 4e-4, 2e-3, 8e-3, 0.05]  # seconds, by function
_RATE = 20  # calls of the caller "rated" that may begin in a minute
_ENDED: dict[type[BaseException], str] = {
    LookupError: "raised",
    ConnectionRefusedError: "refused",
    GeneratorExit: "stopped",
    asyncio.CancelledError: "cancelled",
    Death: "died",
}


def act(function: int, number: int, seconds: float, how: How) -> Any:
    """Stand for a call; what the fake does in its place is `History.act`."""
    raise AssertionError


async def act_async(function: int, number: int, seconds: float, how: How) -> Any:
    """Stand for an async one."""
    raise AssertionError


def _is_busy(error: BaseException) -> Busy | None:
    return Busy(0.5) if isinstance(error, ConnectionRefusedError) else None


class _InFlight(NamedTuple):
    worker: int
    ticket: int


class History:
    """One pool from entering to leaving."""

    def __init__(self, workers: int, *, at_once: int, turns_per_worker: int) -> None:
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.calls: list[Call] = []
        self.wrong: list[str] = []
        self.widths = {"pool": at_once, "narrow": 1, "wide": 3}
        self.in_flight: dict[_InFlight, Call] = {}
        self.sessions: dict[str, Session] = {}
        self.rated: list[float] = []  # when calls of that caller were shipped
        self.broken = False
        self.short_of_memory = False
        self._stack = ExitStack()
        self._stack.enter_context(the_pools_clock(self.clock))
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("hmz_mp.core.pool.make_engine", self._make_engine)
        patch.setattr("hmz_mp.core.functions._KEPT", 4)
        self.loop.set_exception_handler(self._raised)
        self.pool = Pool(
            workers,
            at_once=at_once,
            turns_per_worker=turns_per_worker,
            idle_timeout=30,
            start_timeout=20,
        )
        self.loop.run_until_complete(self.pool.__aenter__())
        self.callers = {
            "": self.pool.options(),
            "narrow": self.pool.options(at_once=1),
            "wide": self.pool.options(limit=self.pool.limit("wide", at_once=3)),
            "first": self.pool.options(priority=1),
            "rated": self.pool.options(limit=self.pool.limit("rated", per_minute=_RATE)),
            "careful": self.pool.options(
                limit=self.pool.limit("careful", at_once="auto"), is_busy=_is_busy
            ),
        }
        self.engine: Engine

    def _make_engine(
        self, name: str, driver: Driver, events: Coordinator, options: EngineOptions
    ) -> FakeEngine:
        events.watch.memory = lambda: MachineMemory(
            64 << 30, 1 << 20 if self.short_of_memory else 32 << 30
        )
        script = {act: self.act, act_async: self.act}
        self.coordinator = events
        self.engine = Engine(driver, Ear(events, self), self.clock, script)
        self.engine.history = self
        self.engine.capacity = options.width
        return self.engine

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.wrong.append(f"{context['message']}: {context.get('exception')!r}")

    # What the test has happen.

    def submit(
        self,
        where: str,
        kind: Kind,
        function: int,
        seconds: float | None,
        how: How,
        **settings: Any,
    ) -> Call:
        """Submit a call, to the pool under some options or to a session; note its settings."""
        seconds = _USUAL[function] if seconds is None else seconds
        given = {name: value for name, value in settings.items() if value is not None}
        caller: Caller | Session
        if where in self.callers:
            caller, group = self.callers[where], where
            caller = caller.options(**given) if given else caller
        else:
            if where not in self.sessions:
                self.sessions[where] = self.pool.options(**given).session(f"{len(self.calls)}")
            caller = self.sessions[where]  # all of its turns have the settings of its first
            group = f"session {caller.name}"
        call = Call(len(self.calls) + 1, kind, how, ["pool", group], self.clock.now)
        for name in ("retries", "timeout", "deadline"):
            setattr(call, name, getattr(caller._settings, name))
        self.calls.append(call)
        stands = partial(act if kind == "call" else act_async, function)
        call.turn = caller.submit(stands, call.number, seconds, how)
        call.turn.add_done_callback(partial(self._ended, call))
        return call

    def _ended(self, call: Call, _: object) -> None:
        call.ends += 1
        wrong = call.wrong(self.clock.now, self.broken or self.coordinator.broken is not None)
        if wrong:
            self.wrong.append(f"{call} ended as it should not: {wrong}")

    def cancel(self, call: Call) -> None:
        """Cancel a call, if it has not ended."""
        done = call.turn.done()
        if call.turn.cancel():
            call.was_cancelled, call.cancelled = True, self.clock.now
            if done:
                self.wrong.append(f"{call} was cancelled after its end")

    # What runs.

    def act(
        self, fake: FakeCall, function: int, number: int, seconds: float, how: How
    ) -> Generator[float, None, Any]:
        """Do what a call is to do, and note it."""
        call = self.calls[number - 1]
        run = Run(fake.worker, self.clock.now)
        self._begins(call, run)
        call.runs.append(run)
        again = len(call.runs)
        try:
            yield from self._acts(seconds, how, again)
            if how in ("raises", "hangs once") or (how == "raises once" and again == 1):
                raise LookupError(number)
            if how == "refused" or (how == "refused twice" and again <= 2):
                raise ConnectionRefusedError(number)
        except BaseException as error:
            run.ended = _ENDED.get(type(error), "failed")
            raise
        else:
            run.ended = "answered"
            return number, again
        finally:
            if wrong := call.wrong_length(self.clock.now):
                self.wrong.append(f"{call} ran for too long: {wrong}")

    def _acts(self, seconds: float, how: How, again: int) -> Generator[float, None, None]:
        try:
            yield seconds
            if how == "hangs" or (how == "hangs once" and again == 1):
                yield FOREVER
        except asyncio.CancelledError:
            if how != "hears nothing":
                raise
            yield FOREVER
        if how == "dies":
            raise Death(signal=11)

    def _begins(self, call: Call, run: Run) -> None:
        running = [one for one in self.calls if one.runs and not one.runs[-1].ended]
        if call in running:
            self.wrong.append(f"{call} runs twice at once")
        if not call.may_begin():
            self.wrong.append(f"{call} runs though it has ended or failed")
        session = call.groups[1]
        if session in self.callers:
            return
        others = [one for one in self.calls if one.groups[1] == session]
        if [one for one in others if one in running]:
            self.wrong.append(f"{call} runs beside another turn of its session")
        if [one for one in others if one.number > call.number and one.runs]:
            self.wrong.append(f"{call} runs after a later turn of its session")

    # What passes between coordinator and engine.

    def shipped(self, worker: int, jobs: Sequence[Shipment]) -> None:
        """Take note of what is shipped; look whether it is not too much."""
        for job in jobs:
            assert isinstance(job.payload, bytes)
            call = self.calls[pickle.loads(job.payload)[0] - 1]
            call.shipped.append(self.clock.now)
            self.in_flight[_InFlight(worker, job.ticket)] = call
            if "rated" in call.groups:
                self.rated.append(self.clock.now)
        since = self.clock.now - MINUTE + LOOSE
        if len([time for time in self.rated if time > since]) > _RATE:
            self.wrong.append(f"more than {_RATE} began in a minute: {self.rated}")
        flying = Counter(group for call in self.in_flight.values() for group in call.groups)
        for group, number in flying.items():
            width = self.widths.get(group, 0 if group in self.callers else 1)
            if width and number > width:
                self.wrong.append(f"{number} of {group!r} are in flight, and {width} may be")

    def let_go(self, worker: int, ticket: int) -> Call | None:
        """Take note that a worker has let go of a call."""
        return self.in_flight.pop(_InFlight(worker, ticket), None)

    def died(self, worker: int, running: int) -> None:
        """Take note of who is to blame for a worker's end, and who is not."""
        tickets = [one.ticket for one in self.in_flight if one.worker == worker]
        one = self.engine.workers.get(worker)
        assert one is None, "a worker's end is heard once it is gone"
        if running == OLDEST:
            running = tickets[0] if tickets else 0
        host = worker in self.engine.hosts
        for ticket in tickets:
            call = self.let_go(worker, ticket)
            assert call is not None
            if host or ticket == running:
                call.blamed += 1
            elif running not in tickets:
                call.lost += 1

    # The end.

    def look(self) -> None:
        """Raise `AssertionError` if something was not right so far."""
        left = [call for call in self.calls if not call.turn.done()]
        late = [call for call in left if call.is_late(self.clock.now)]
        self.wrong += [f"{call} has not ended by its deadline" for call in late]
        wrong = [*self.wrong, *self.engine.faults]
        assert not wrong, "\n".join(wrong)

    def clear_up(self) -> None:
        """Make everything whole, and stop what would not end by itself."""
        engine = self.engine
        engine.start_faults.clear()
        self.short_of_memory = False
        if engine.capacity == 0:
            engine.set_capacity(1)
        for call in self.calls:
            if call.how in ("hangs", "hangs once", "hears nothing") and call.timeout is None:
                self.cancel(call)

    def famine(self, kind: Kind) -> None:
        """Have no room for workers any more while those that are started end at once."""
        engine = self.engine
        engine.start_faults.clear()
        engine.set_capacity(4)
        for _ in range(3):
            self.submit("", kind, 0, None, "answers")
        self.loop.advance(1.0)
        engine.start_faults.extend(["exit"] * 3)
        for _ in range(3):
            self.submit("", "host" if kind == "call" else "call", 0, None, "answers")
        self.loop.advance(0.0)
        engine.set_capacity(0)
        self.loop.advance(1.0)

    def finish(self) -> None:
        """Let all end."""
        self.clear_up()
        left = self.calls
        for _ in range(60):
            self.loop.advance(60.0)
            left = [call for call in self.calls if not call.turn.done()]
            if not left:
                break
        self.loop.advance(60.0)
        if left:
            self.wrong.append(f"these never end: {left}")
        statistics = self.pool.statistics()
        if self.in_flight or statistics.running or statistics.queued:
            self.wrong.append(f"{self.in_flight} is in flight at the end: {statistics}")

    def leave(self, error: BaseException | None = None) -> None:
        """Leave the pool, at once with an error; every turn has ended then."""
        if error is not None:
            for call in self.calls:
                call.was_cancelled = True
        self.loop.run_until_complete(
            self.pool.__aexit__(type(error) if error is not None else None, error, None)
        )
        self.loop.advance(0)
        counts = self.coordinator.policy.counts
        ended = counts["done"] + counts["failed"] + counts["cancelled"]
        if ended != len(self.calls):
            self.wrong.append(f"{ended} of {len(self.calls)} turns are counted")
        for call in self.calls:
            if call.ends != 1:
                self.wrong.append(f"{call} ended {call.ends} times")
        if self.engine.workers:
            self.wrong.append(f"workers are left: {self.engine.workers}")

    def close(self) -> None:
        """Let go of the loop and of what was put in place of others, whatever happened.

        Turns too: what they were submitted with may refer to this, and the collector does not look
        into jobs.
        """
        self.calls.clear()
        self.in_flight.clear()
        self.loop.close()
        self._stack.close()


class Engine(FakeEngine):
    """The fake, telling a history what is shipped."""

    history: History
    hosts: set[int]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.hosts = set()

    def start_worker(self, worker: int, kind: Kind) -> None:
        if kind == "host":
            self.hosts.add(worker)
        super().start_worker(worker, kind)

    def note_unknown(self, one: FakeWorker, sent: wire.Call) -> None:
        """One that nobody waits for may be forgotten with its function before it begins."""
        call = self.history.in_flight[_InFlight(one.number, sent.ticket)]
        if not call.turn_is_done():
            super().note_unknown(one, sent)

    def _kill(self, worker: int, only: int) -> None:
        one = self.workers.get(worker)
        if one is not None and not one.ended and one.runs and only in (0, one.runs):
            call = self.history.in_flight[_InFlight(worker, one.runs)]
            self._check(call.may_be_stopped(), f"{call} is killed, and nobody wants that")
        super()._kill(worker, only)

    def ship(self, worker: int, jobs: Sequence[Shipment]) -> None:
        self.history.shipped(worker, jobs)
        super().ship(worker, jobs)


class Ear:
    """Hears what the engine reports, tells a history, and passes it on."""

    def __init__(self, events: Coordinator, history: History) -> None:
        self._events = events
        self._history = history
        self.worker_ready = events.worker_ready
        self.worker_said = events.worker_said
        self.worker_missed = events.worker_missed
        self.settle = events.settle
        self.capacity_changed = events.capacity_changed

    def worker_refused(self, failure: wire.StartFailed) -> None:
        self._history.broken = True
        self._events.worker_refused(failure)

    def worker_answered(
        self, worker: int, answers: Sequence[wire.Answer], buffers: list[Buffer]
    ) -> None:
        for answer in answers:
            call = self._history.let_go(worker, answer.ticket)
            if call is not None and not answer.ok and not call.is_put_back():
                call.failures += 1
        self._events.worker_answered(worker, answers, buffers)

    def worker_gave_back(self, worker: int, tickets: list[int], running: int) -> None:
        for ticket in tickets:
            self._history.let_go(worker, ticket)
        self._events.worker_gave_back(worker, tickets, running)

    def worker_died(self, worker: int, running: int, error: WorkerDied) -> None:
        self._history.died(worker, running)
        self._events.worker_died(worker, running, error)

    def engine_failed(self, reason: str, said: str) -> None:
        self._history.broken = True
        self._events.engine_failed(reason, said)
