"""The coordinator of one pool: between its policy, its engine, and the turns that are awaited.

It carries the policy's commands to the engine and the engine's reports to the policy, and ends
each turn once. What is decided is decided in the policy; this only does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pickle import loads
from time import monotonic
from typing import TYPE_CHECKING, Any

from hmz_mp.core import turns
from hmz_mp.core.commands import CancelTurn, Fail, Kill, PutBack, Retire, Ship
from hmz_mp.core.events import log_here, read_event
from hmz_mp.core.functions import NO_FUNCTION, Function
from hmz_mp.core.jobs import Job, JobState, Kind, Lane, WorkerState
from hmz_mp.core.late import LatePayload
from hmz_mp.core.loop import Driver, Handle
from hmz_mp.core.outcomes import another, failure_of, unloadable
from hmz_mp.core.policy import Policy
from hmz_mp.core.shipment import NO_SETTINGS, Settings, Shipment
from hmz_mp.core.turns import Canceller, Event, Logged, Shipped, Turn, guarded
from hmz_mp.core.watch import Watch
from hmz_mp.engines.protocol import OLDEST, Engine
from hmz_mp.errors import (
    HmzMpError,
    InitializerFailed,
    WorkerDied,
    WorkerStartFailed,
)
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.payload import Payload, load

if TYPE_CHECKING:
    import anyio

__all__ = ["Coordinator"]

_START_TRIES = 3

_log = logging.getLogger("hmz_mp")


class Coordinator:
    """Runs one pool's turns. Everything here happens on the loop's thread."""

    # The whole state: the turns that have not ended, by id; whether a pump is due and when the
    # timer is; why nothing can be started any more, if so.
    def __init__(self, driver: Driver, policy: Policy, start_timeout: float) -> None:
        self._driver = driver
        self.policy = policy
        self.engine: Engine
        self.watch = Watch(driver, policy, start_timeout, self._start_hung, self._pump)
        self.new_turn: Callable[[Shipment, Canceller], Any] = driver.new_turn
        self.pending: dict[int, Any] = {}  # turns of the loop's kind
        self._last_id = 0
        self.broken: HmzMpError | None = None
        # Says which of the jobs that are about to be shipped are not wanted any more: asked of
        # callers in other threads, who may cancel at any time.
        self.refused: Callable[[list[Shipment]], list[Shipment]] | None = None
        self.ended_sessions: list[int] = []  # of which workers are to be told
        self._due = False  # a pump is, in the loop's next step
        self._pumping = False
        self._timer: Handle | None = None
        self._timer_time = 0.0
        self._start_failures = 0
        self._not_started: dict[Kind, str] = {}  # why, of what could not be started just now
        self._ever_ready = False
        self._idle: anyio.Event | None = None

    # From the caller.

    def submit(
        self,
        function: Function,
        payload: bytes | Payload | LatePayload,
        lane: Lane,
        settings: Settings,
    ) -> Turn:
        """Queue a call in a lane; return its turn, of the loop's kind."""
        if self.broken is not None:
            return self.refuse(lane, settings, self.broken)
        self._last_id = number = self._last_id + 1
        job = Shipment(number, lane, function.timing, function=function, payload=payload)
        if settings is not NO_SETTINGS:
            job.configure(settings)
        self.pending[number] = turn = self.new_turn(job, self)
        self.policy.submit(job, monotonic() if job.deadline is not None else 0.0)
        if not self._due:
            if self._pumping or not self.policy.roster.is_idle(lane.kind):
                self._pump_soon()
            else:  # a worker waits for it: another step of the loop would cost more than the call
                self._pump()
        return turn  # type: ignore[no-any-return]  # a turn of the loop's kind

    def refuse(self, lane: Lane, settings: Settings, error: BaseException) -> Turn:
        """Return a turn that failed before it could be queued."""
        self._last_id += 1
        job = Shipment(self._last_id, lane, NO_FUNCTION.timing, function=NO_FUNCTION)
        job.configure(settings)
        turn = self.new_turn(job, self)
        self.policy.refuse(job)
        turn.fail(partial(another, error))
        return turn  # type: ignore[no-any-return]  # the same

    def cancel_job(self, job: Job) -> bool:
        """End a job for its caller; return False if it has ended already."""
        if not self.policy.cancel(job, monotonic()):
            return False
        self._close(job)
        self._pump_soon()
        return True

    def tell_job(self, job: Job, data: bytes) -> bool:
        """Tell a running job something; return False if it does not run on a host worker."""
        worker = job.worker
        if job.state is not JobState.SHIPPED or worker is None or worker.kind != "host":
            return False
        self.engine.tell_turn(worker.id, job.ticket, data)
        return True

    async def wait_idle(self) -> None:
        """Return when no turn is left that has not ended."""
        import anyio.lowlevel  # a slow import, done by the engine while its zygote boots

        while self.pending:
            self._idle = anyio.Event()
            await self._idle.wait()
            await anyio.lowlevel.checkpoint()  # a done callback may submit more

    def abandon(self) -> None:
        """Cancel every turn that has not ended."""
        for turn in list(self.pending.values()):
            turn.cancel()

    def stop_timers(self) -> None:
        """Leave no timer on the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.watch.stop()

    # Carrying out what the policy decides.

    def _pump_soon(self) -> None:
        if not self._due:
            self._due = True
            self._driver.call_soon(self._pump)

    def _pump(self) -> None:
        """Have the policy dispatch, and carry out all that it wants done."""
        self._due = False
        self._pumping = True  # what callbacks submit meanwhile is for the next one
        try:
            self._carry_out_all()
        finally:
            self._pumping = False
        self._set_timer()

    def _carry_out_all(self) -> None:
        policy = self.policy
        now = monotonic()
        policy.dispatch(now)
        shipping: dict[int, list[Shipment]] = {}
        while policy.commands:
            for command in policy.take_commands():
                if isinstance(command, Ship):
                    shipping.setdefault(command.worker, []).extend(command.jobs)  # type: ignore[arg-type]  # the pool's jobs are shipments
                else:
                    self._carry_out(command)
        if self.ended_sessions:
            ended, self.ended_sessions = self.ended_sessions, []
            self.engine.forget((), ended)
        if shipping:
            self.engine.follow_paths()
        for worker, jobs in shipping.items():
            self._ship(worker, jobs, now)
        while self._not_started:
            self._start_failed(*self._not_started.popitem(), "", _START_TRIES)

    def _carry_out(self, command: Any) -> None:
        engine = self.engine
        if isinstance(command, Fail):
            self._fail(command.job, command.error)
        elif isinstance(command, Kill):
            engine.kill(command.worker, command.only)
        elif isinstance(command, CancelTurn):
            engine.cancel_turn(command.worker, command.ticket)
        elif isinstance(command, PutBack):
            assert isinstance(command.job, Shipment)
            self._tell(command.job, turns.PutBack(max(0.0, command.until - monotonic())))
        elif isinstance(command, Retire):
            engine.retire(command.worker)
        else:
            self._start(command.worker, command.kind)

    def _start(self, worker: int, kind: Kind) -> None:
        try:
            self.engine.start_worker(worker, kind)
        except OSError as error:
            self.policy.not_started(worker)
            self._not_started[kind] = f"{type(error).__name__}: {error}"
        else:
            self.watch.started(worker)
            self.watch.wake()

    def _ship(self, worker: int, jobs: list[Shipment], now: float) -> None:
        if self.refused is not None and (refused := self.refused(jobs)):
            jobs = self._take_back(worker, jobs, refused, now)
            if not jobs:
                return
        # All of them, also one that was cancelled since: the policy counts it as this worker's.
        self.engine.ship(worker, jobs)
        for job in [job for job in jobs if job.settings is not NO_SETTINGS]:
            self._tell(job, Shipped(self.engine.pid(worker) or 0))
            if job.memory is not None:
                self.watch.wake(limited=True)
        self.watch.wake()

    def _take_back(
        self, worker: int, jobs: list[Shipment], refused: list[Shipment], now: float
    ) -> list[Shipment]:
        """Cancel jobs that were about to be shipped to a worker; return the others."""
        self.policy.gave_back(worker, [job.ticket for job in refused], 0, now)
        for job in refused:
            self.cancel_job(job)
        self._pump_soon()
        return [job for job in jobs if job not in refused]

    def _set_timer(self) -> None:
        """Have the loop come back when the policy's next timer is due, or earlier."""
        wake = self.policy.next_wake()
        if wake is None or (self._timer is not None and self._timer_time <= wake):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_time = wake
        self._timer = self._driver.call_at(wake, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.policy.tick(monotonic())
        self._pump()

    # Ending turns.

    def _close(self, job: Job) -> Any:
        """Forget a job that has ended for its caller; return its turn."""
        turn = self.pending.pop(job.id)
        if not self.pending and self._idle is not None:
            self._idle.set()
            self._idle = None
        return turn

    def _fail(self, job: Job, error: BaseException) -> None:
        assert isinstance(job, Shipment)
        if isinstance(error, WorkerDied) and not isinstance(error, WorkerStartFailed):
            error = WorkerDied(
                error.pid,
                exitcode=error.exitcode,
                signal=error.signal,
                stderr_tail=error.stderr_tail,
                doing=job.describe(),
            )
        if job.shipped_at:
            pid = error.pid if isinstance(error, WorkerDied) else None
            tail = error.stderr_tail.encode() if isinstance(error, WorkerDied) else b""
            job.settle(pid, job.shipped_at, monotonic() - job.shipped_at, tail)
        self._close(job).fail(partial(another, error))

    def fail_all(self, error: HmzMpError) -> None:
        """End every turn with ``error``, and those submitted from now on: nothing can run."""
        self.broken = error
        now = monotonic()
        for turn in list(self.pending.values()):
            if self.policy.cancel(turn.job, now):
                self._fail(turn.job, error)
        self._pump_soon()

    # What the engine reports.

    def worker_ready(self, worker: int) -> None:
        """Hear that a worker is set up."""
        self._start_failures = 0
        self._ever_ready = True
        self.policy.ready(worker, monotonic())

    def worker_refused(self, failure: wire.StartFailed) -> None:
        """Hear that a worker cannot be set up; its end follows."""
        text = f"{failure.failure.type_name}: {failure.failure.text}"
        if failure.initializer:
            self.fail_all(
                InitializerFailed(
                    f"the initializer raised {text}", stderr_tail=failure.failure.traceback
                )
            )
        else:
            self.fail_all(WorkerStartFailed(text))

    def worker_answered(
        self, worker: int, answers: Sequence[wire.Answer], buffers: list[Buffer]
    ) -> None:
        """Hear how calls ended."""
        pid = self.engine.pid(worker)
        # The pool's jobs are shipments, all of them.
        ended: list[Any] = list(self.policy.answered(worker, answers, monotonic()))
        at = 0
        own: list[Buffer] = []
        for answer, job in zip(answers, ended, strict=True):
            if buffers:
                own = buffers[at : at + answer.buffers]
                at += answer.buffers
            if job is None:
                continue
            turn = self._close(job)
            job.settle(pid, answer.began, answer.seconds, answer.output)
            if not answer.ok:
                turn.fail(partial(failure_of, answer.data, job.function.name))
                continue
            try:
                value = load(answer.data, own) if own else loads(answer.data)
            except BaseException as error:  # loading runs the user's code
                turn.fail(partial(another, unloadable(job.function.name, error)))
            else:
                turn.set_result(value)

    def worker_gave_back(self, worker: int, tickets: list[int], running: int) -> None:
        """Hear that calls did not begin."""
        self.policy.gave_back(worker, tickets, running, monotonic())

    def settle(self) -> None:
        """Act on what was heard of workers."""
        self._pump()

    def worker_said(self, worker: int, said: wire.Said) -> None:
        """Hear something of a running call."""
        known = self.policy.roster.workers.get(worker)
        job = known.inflight.get(said.ticket) if known is not None else None
        if not isinstance(job, Shipment) or job.state is not JobState.SHIPPED:
            return
        event = read_event(said)
        if isinstance(event, Logged):
            with guarded("a logging filter or handler"):
                log_here(event, job.id, job.settings.item_id)
        self._tell(job, event)

    def _tell(self, job: Shipment, event: Event) -> None:
        listener, turn = job.settings.on_event, self.pending.get(job.id)
        if listener is not None and turn is not None:
            with guarded("on_event"):
                listener(turn, event)

    def worker_missed(self, worker: int) -> None:
        """Hear that a conditional kill was not carried out."""
        self.policy.missed(worker, monotonic())
        self._pump()

    def worker_died(self, worker: int, running: int, error: WorkerDied) -> None:
        """Hear a worker's end, and the ticket of what it ran."""
        known = self.policy.roster.workers.get(worker)
        starting = known is not None and known.state is WorkerState.STARTING
        if known is not None and running == OLDEST:
            running = next(iter(known.inflight), 0)
        self.policy.died(worker, running, error, monotonic())
        forker_lost = error.exitcode is None and error.signal is None  # the engine counts those
        if known is not None and starting and not forker_lost and self.broken is None:
            reason = f"{_START_TRIES} ended before they were set up, the last one: {error}"
            self._start_failed(known.kind, reason, error.stderr_tail, 1)
        self._pump_soon()

    def _start_failed(self, kind: Kind, reason: str, said: str, failures: int) -> None:
        """Go on with the workers there are once others cannot be started; fail without any."""
        self._start_failures += failures
        if self._start_failures < _START_TRIES or self.broken is not None:
            return
        if self.policy.shrink(kind):
            _log.warning("going on with the workers there are; no more can be started: %s", reason)
            self._pump_soon()
        else:
            self.fail_all(WorkerStartFailed(reason, stderr_tail=said))

    def _start_hung(self, worker: int, seconds: float) -> None:
        """Give up a worker that is not set up in time; its end follows."""
        self.engine.kill(worker, 0)
        if not self._ever_ready and self.broken is None:
            self.fail_all(InitializerFailed(f"the first was not set up within {seconds:g} s"))

    def capacity_changed(self, workers: int) -> None:
        """Hear how many workers of each kind there can be from now on."""
        self.policy.roster.limit = workers
        self._pump_soon()

    def has_turns(self) -> bool:
        """Return whether there are turns that have not ended."""
        return bool(self.pending)

    def engine_failed(self, reason: str, said: str) -> None:
        """Hear that no workers can be started."""
        self.fail_all(WorkerStartFailed(reason, stderr_tail=said))
