"""A worker that is made up: what happens in one, in virtual time. Used by the fake engine only.

It takes in what a real one is sent, and does with it what a real one does: a call worker runs one
call at a time and gives back what waits behind one that takes long; a host runs all it has.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import math
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol

from hmz_mp.core.jobs import Kind
from hmz_mp.engines.protocol import OLDEST, EngineEvents
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import payload, state, wire
from hmz_mp_worker.framing import Buffer
from tests.fakes.virtual_time import Agenda

__all__ = ["FOREVER", "Death", "FakeCall", "FakeWorker", "Script"]

FOREVER = math.inf
_LATE = 0.01  # seconds that a call runs when what waits behind it is given back
_HELD = 0.0005  # seconds that an answer waits for others to be sent with
_FIRST_PID = 1 << 23  # more than any process of this machine has

# What is done in place of a function: called with the call and its arguments, it returns the
# answer, or is a generator that yields the seconds its steps take and returns the answer.
Script = Mapping[Callable[..., Any], Callable[..., Any]]
_Steps = Generator[float, None, Any]


class Death(BaseException):
    """Raised in a call to end its worker."""

    def __init__(
        self, *, signal: int | None = None, exitcode: int | None = None, said: str = ""
    ) -> None:
        super().__init__(signal, exitcode)
        self.signal = signal
        self.exitcode = exitcode
        self.said = said


class Surroundings(Protocol):
    """What a worker has around it: the engine."""

    agenda: Agenda
    events: EngineEvents
    script: Script
    call_seconds: float

    def note_unknown(self, one: FakeWorker, sent: wire.Call) -> None:
        """Take note of a call that names a function which is not there, and so fails."""

    def send(self, one: FakeWorker, report: Callable[[], None]) -> None:
        """Have a report heard, after all that this worker sent before."""

    def reap(self, one: FakeWorker, runs: int, error: WorkerDied) -> None:
        """Have a worker's end heard."""


class FakeCall:
    """One call as what is done in its place sees it: where it runs, and what it may set."""

    __slots__ = ("began", "memory", "output", "pid", "steps", "taken", "ticket", "turn", "worker")

    def __init__(self, ticket: int, turn: state.RunningTurn, one: FakeWorker, now: float) -> None:
        self.ticket = ticket
        self.turn = turn
        self.worker = one.number
        self.pid = one.pid
        self.began = now
        self.memory = 0  # bytes that it holds
        self.output = io.StringIO()
        self.steps: _Steps
        self.taken = 0  # steps so far


class FakeWorker:
    """A worker as it is, which the coordinator hears of later."""

    # The whole state: whether it is set up, is told to exit and has heard it, has ended; what
    # arrived too early; the calls that wait and those that run; answers that are not sent yet.
    def __init__(self, number: int, kind: Kind, engine: Surroundings) -> None:
        self.number = number
        self.kind: Kind = kind
        self.pid = _FIRST_PID + number
        self.up = self.leaving = self.ended = False
        self.running: dict[int, FakeCall] = {}
        self.queue: deque[tuple[wire.Call, Sequence[Buffer]]] = deque()
        self._engine = engine
        self._agenda = engine.agenda
        self._retiring = self._looking = False
        self._inbox: deque[Callable[[], None]] = deque()
        self._functions: dict[int, bytes] = {}
        self._sessions: dict[int, dict[str, Any]] = {}
        self._held: list[tuple[wire.Answer, Sequence[Buffer]]] = []

    @property
    def runs(self) -> int:
        """The ticket of what a call worker runs; 0 for nothing, and for a host."""
        return next(iter(self.running), 0) if self.kind == "call" else 0

    # What arrives.

    def set_up(self, initializer: bytes, fault: str) -> None:
        """Be ready, or be unable to; begin with what arrived meanwhile."""
        if self.ended or fault == "hang":
            return
        if fault == "exit":
            self.end(exitcode=3)
            return
        error: BaseException | None = RuntimeError(f"a fake is {fault}") if fault else None
        if initializer and not fault:
            try:
                function, args = payload.load(initializer)
                function(*args)
            except BaseException as raised:  # said to the coordinator, whatever it is
                error, fault = raised, "initializer"
        if error is not None:
            failure = wire.decode_failure(payload.pack_failure(error))
            failed = wire.StartFailed(failure, initializer=fault == "initializer")
            self._send(partial(self._engine.events.worker_refused, failed))
            self.end(exitcode=1)
            return
        self.up = True
        self._send(partial(self._engine.events.worker_ready, self.number))
        while self._inbox:
            self._inbox.popleft()()

    def arrive(self, take: Callable[[], None]) -> None:
        """Take something in, once set up."""
        if not self.up:
            self._inbox.append(take)
        elif not self.ended:
            take()

    def take_calls(self, body: bytes, buffers: list[Buffer]) -> None:
        """Take in calls, as they travel, and the functions that come with them."""
        message = wire.decode_to_worker(body)
        assert isinstance(message, (wire.Run, wire.Calls))
        self._functions.update((function.id, function.data) for function in message.functions)
        if isinstance(message, wire.Run):
            for ticket, data in enumerate(message.arguments, message.first_ticket):
                self.queue.append((wire.Call(ticket, message.function, data, plain=True), ()))
        else:
            for call in message.calls:
                self.queue.append((call, buffers[: call.buffers]))
                del buffers[: call.buffers]
        self._go_on()

    def forget(self, functions: Sequence[int], sessions: Sequence[int]) -> None:
        """Forget functions and sessions."""
        for function in functions:
            self._functions.pop(function, None)
        for session in sessions:
            self._sessions.pop(session, None)

    def cancel(self, ticket: int) -> None:
        """Cancel one turn of a host."""
        call = self.running.get(ticket)
        if call is not None:
            self._step(call, call.taken, asyncio.CancelledError())

    def tell(self, ticket: int, data: bytes) -> None:
        """Tell one turn something."""
        call = self.running.get(ticket)
        if call is not None:
            call.turn.tell(data)

    def retire(self) -> None:
        """Exit, once there is nothing to do."""
        self._retiring = True
        self._go_on()

    # What is done.

    def _go_on(self) -> None:
        """Begin what can begin; exit if there is nothing more to do."""
        while self.queue and not self.ended and (self.kind == "host" or not self.running):
            self._begin(*self.queue.popleft())
        if self.ended:
            return
        if self.queue and not self._looking:
            self._looking = True
            self._agenda.enter(_LATE, partial(self._look, self.runs))
        if not self.running:
            self._flush()
            if self._retiring:
                self.end(exitcode=0)

    def _begin(self, sent: wire.Call, buffers: Sequence[Buffer]) -> None:
        turn = state.RunningTurn(sent.ticket, sent.session, self._sessions, self)
        call = FakeCall(sent.ticket, turn, self, self._agenda.clock())
        self.running[sent.ticket] = call
        if sent.function not in self._functions:
            self._engine.note_unknown(self, sent)
        call.steps = self._steps(call, sent, buffers)
        self._step(call, 0, None)

    def _steps(self, call: FakeCall, sent: wire.Call, buffers: Sequence[Buffer]) -> _Steps:
        function = payload.load(self._functions[sent.function])
        value = payload.load(sent.data, buffers)
        args, kwargs = (value, {}) if sent.plain else value
        value = _acted(self._engine.script, call, function, args, kwargs)
        if inspect.iscoroutine(value):
            return (yield from _driven(value, self._engine.call_seconds))
        if inspect.isgenerator(value):
            return (yield from value)
        yield self._engine.call_seconds
        return value

    def _step(self, call: FakeCall, taken: int, thrown: BaseException | None) -> None:
        """Go on with a call, unless something else became of it."""
        if self.running.get(call.ticket) is not call or call.taken != taken or self.ended:
            return
        call.taken += 1
        before, state.process.turn = state.process.turn, call.turn
        try:
            with redirect_stdout(call.output):
                seconds = call.steps.throw(thrown) if thrown is not None else next(call.steps)
        except StopIteration as end:
            self._answer(call, True, end.value)
        except Death as death:
            said = call.output.getvalue() + death.said
            self.end(signal=death.signal, exitcode=death.exitcode, said=said)
        except BaseException as error:  # any other exception is the call's ending
            self._answer(call, False, error)
        else:
            if seconds < FOREVER:
                self._agenda.enter(seconds, partial(self._step, call, call.taken, None))
        finally:
            state.process.turn = before

    def _answer(self, call: FakeCall, ok: bool, value: Any) -> None:
        buffers: Sequence[Buffer] = ()
        if ok:
            data, buffers = payload.split(payload.dump_back(value))
        else:
            data = payload.pack_failure(value)
        seconds, output = self._agenda.clock() - call.began, call.output.getvalue().encode()
        answer = wire.Answer(call.ticket, ok, data, call.began, seconds, output, len(buffers))
        del self.running[call.ticket]
        self._held.append((answer, buffers))
        if self.kind == "host":
            self._flush()
        elif len(self._held) == 1:
            self._agenda.enter(_HELD, self._flush)
        self._agenda.enter(0.0, self._go_on)

    def _look(self, ticket: int) -> None:
        """Give back what waits behind a call that still runs."""
        self._looking = False
        if self.runs == ticket:
            self.give_back()
        self._go_on()

    def give_back(self) -> int:
        """Give back what has not begun, if something runs; return how many calls that are."""
        if self.ended or self.kind == "host" or not self.running or not self.queue:
            return 0
        tickets = [sent.ticket for sent, _ in self.queue]
        self.queue.clear()
        self._flush()
        gave_back = self._engine.events.worker_gave_back
        self._send(partial(gave_back, self.number, tickets, self.runs))
        return len(tickets)

    # What is said.

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        """Send one thing that a call says."""
        said = wire.Said(ticket, kind, data)
        self._send(partial(self._engine.events.worker_said, self.number, said))

    def _send(self, report: Callable[[], None]) -> None:
        self._engine.send(self, report)

    def _flush(self) -> None:
        if self._held and not self.ended:
            self._send(self.answers())

    def answers(self) -> Callable[[], None]:
        """Return what reports the answers that are not sent yet; they are from then on."""
        held, self._held = self._held, []
        answers = [answer for answer, _ in held]
        buffers = [buffer for _, some in held for buffer in some]
        answered = self._engine.events.worker_answered
        return partial(answered, self.number, answers, buffers) if answers else _nothing

    def end(
        self,
        *,
        signal: int | None = None,
        exitcode: int | None = None,
        said: str = "",
        lost: bool = False,
    ) -> None:
        """End, at once. With ``lost``, what was not sent is, and what ran is not known.

        Calls that run are closed, for tests that want to know.
        """
        if self.ended:
            return
        self.ended = True
        runs = OLDEST if lost else self.runs
        if lost:
            self._held.clear()
        for call in self.running.values():
            call.steps.close()
        error = WorkerDied(self.pid, exitcode=exitcode, signal=signal, stderr_tail=said)
        self._engine.reap(self, runs, error)


def _nothing() -> None:
    """Report that there was no answer, which is nothing."""


def _acted(
    script: Script,
    call: FakeCall,
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call what the script has for a function, or the function."""
    while isinstance(function, partial):
        args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
        function = function.func
    if isinstance(function, (FunctionType, BuiltinFunctionType)) and function in script:
        return script[function](call, *args, **kwargs)
    return function(*args, **kwargs)


def _driven(coroutine: Any, seconds: float) -> _Steps:
    """Take the steps of a coroutine that only ever lets others go on."""
    thrown: BaseException | None = None
    try:
        while True:
            waits = coroutine.throw(thrown) if thrown is not None else coroutine.send(None)
            assert waits is None, "a fake has no loop for that: say in the script what is done"
            thrown = None
            try:
                yield seconds
            except asyncio.CancelledError as error:
                thrown = error
    except StopIteration as end:
        return end.value
    finally:
        coroutine.close()
