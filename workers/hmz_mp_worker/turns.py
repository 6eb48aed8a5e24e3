"""The host worker: many ``async def`` turns at a time on one asyncio loop.

Waiting on a program or a model costs a coroutine here, not a process. The turns share the process
and its working directory; what they print is told apart by task.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from time import monotonic
from typing import IO, Any, cast

from hmz_mp_worker import running, state, wire
from hmz_mp_worker.arena import Region
from hmz_mp_worker.between import changes
from hmz_mp_worker.framing import Buffer, FrameReader
from hmz_mp_worker.link import Link
from hmz_mp_worker.stdio import OUTPUT_CEILING, Output

__all__ = ["HostWorker"]

# Seconds that a turn has to end when it is cancelled: agents' programs may take four. After five
# the coordinator ends the process.
_HEED = 4.5


class HostWorker:
    """Runs turns until it is told to retire, and has, or its coordinator is gone."""

    # The whole state: the running tasks and turns by ticket, and which of them were dropped; what
    # closes resources of sessions that are over; the sessions' dicts, the functions.
    def __init__(self, sock: socket.socket, link: Link, output: Output, inbox: Region) -> None:
        self._sock = sock
        self._link = link
        self._output = output
        self._reader = FrameReader()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._dropped: set[int] = set()
        self._turns: dict[int, state.RunningTurn] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._printed: dict[int, _Printed] = {}
        self._functions = running.Functions(inbox)
        self._sessions: dict[int, dict[str, Any]] = {}
        self._retiring = False
        self._flushing = False

    def run(self) -> None:
        """Serve the coordinator; return when it is done with this worker."""
        _watch_children_without_threads()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("stdout", "stderr"):
            stream = _PrintedByTask(getattr(sys, name), self._printed)
            setattr(sys, name, cast("IO[str]", stream))
        self._output.accept()
        while not self._retiring:
            # Readiness, then a plain recv: the socket stays blocking for writes, which keeps a
            # frame whole; a coordinator that does not read slows its worker down.
            await _readable(loop, self._sock)
            count = self._sock.recv_into(self._reader.target())
            if not count:
                break
            for body, buffers in self._reader.received(count):
                self._take(wire.decode_to_worker(body), buffers)
        tasks = list(self._tasks.values())
        if not self._retiring:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)
        await state.close_resources()
        with contextlib.suppress(OSError):  # the coordinator is gone
            self._link.flush()

    def _take(self, message: wire.ToWorker, buffers: list[Buffer]) -> None:
        if isinstance(message, wire.Calls):
            self._take_calls(message, buffers)
        elif isinstance(message, wire.Cancel):
            self._cancel(message.ticket)
        elif isinstance(message, wire.Forget):
            self._functions.forget(message.functions)
            for session in message.sessions:
                self._end_session(self._sessions.pop(session, {}))
        elif isinstance(message, wire.Tell):
            turn = self._turns.get(message.ticket)
            if turn is not None:
                turn.tell(message.data)
        elif isinstance(message, wire.Paths):
            running.follow_paths(message)
        elif isinstance(message, wire.Retire):
            self._retiring = True

    def _take_calls(self, message: wire.Calls, buffers: list[Buffer]) -> None:
        for function in message.functions:
            self._functions.add(function)
        at = 0
        for call in message.calls:
            self._start(call, buffers[at : at + call.buffers])
            at += call.buffers

    def _end_session(self, values: dict[str, Any]) -> None:
        """Close what a session's turns left to be closed."""
        resources = [value for value in values.values() if isinstance(value, state.Resource)]
        if resources:
            closing = asyncio.get_running_loop().create_task(state.close_resources(resources))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _start(self, call: wire.Call, buffers: list[Buffer]) -> None:
        turn = state.RunningTurn(call.ticket, call.session, self._sessions, self._link)
        task = asyncio.get_running_loop().create_task(_Droppable(self._run(turn, call, buffers)))
        self._turns[call.ticket] = turn
        self._tasks[call.ticket] = task
        task.add_done_callback(lambda task: self._ended(call.ticket, task))

    def _cancel(self, ticket: int) -> None:
        task = self._tasks.get(ticket)
        if task is not None:
            task.cancel()
            asyncio.get_running_loop().call_later(_HEED, self._drop, ticket, task)

    def _drop(self, ticket: int, task: asyncio.Task[None]) -> None:
        """End a turn that goes on though it was cancelled: it is not to cost the others theirs."""
        if self._tasks.get(ticket) is task:
            self._dropped.add(ticket)
            cast("_Droppable", task.get_coro()).dropped = True
            task.cancel()

    def _ended(self, ticket: int, task: asyncio.Task[None]) -> None:
        del self._tasks[ticket], self._turns[ticket]
        self._dropped.discard(ticket)
        if task.cancelled():  # dropped, or before its first step, so that `_run` never saw it
            error, output = asyncio.CancelledError(), self._take_printed(ticket)
            self._link.answer(running.pack_error(ticket, error, monotonic(), output, None))
            self._flush_soon()
        if not self._tasks:  # they share the process: what one changed is put back after the last
            self._output.repair()
            if changes.any():
                changes.put_back()

    async def _run(self, turn: state.RunningTurn, call: wire.Call, buffers: list[Buffer]) -> None:
        ticket = call.ticket
        state.task_turn.set(turn)
        began = monotonic()
        try:
            function, args, kwargs = self._functions.resolve(call, buffers)
            value = await function(*args, **kwargs)
        except BaseException as error:  # any exception is the turn's ending, cancellation too
            if state.process.forked:
                running.leave_fork(error)
            if ticket in self._dropped:  # this is the end of the coroutine alone
                raise
            answer = running.pack_error(
                ticket, error, began, self._take_printed(ticket), sys._getframe()
            )
            self._link.answer(answer)
        else:
            if state.process.forked:
                running.leave_fork(None)
            answer, parts = running.pack_answer(
                ticket, value, began, monotonic() - began, self._take_printed(ticket)
            )
            self._link.answer(answer, parts)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._link.flush()
        self._output.trim()

    def _take_printed(self, ticket: int) -> bytes:
        printed = self._printed.pop(ticket, None)
        return printed.text().encode("utf-8", "backslashreplace") if printed else b""


class _Droppable(Coroutine[Any, Any, None]):
    """A turn's coroutine, as a task runs it; once it is dropped, the task's cancellation ends both.

    Each step of the task goes to the coroutine itself, at no cost.
    """

    __slots__ = ("_turn", "dropped", "send")

    def __init__(self, turn: Coroutine[Any, Any, None]) -> None:
        self._turn = turn
        self.send: Callable[[Any], Any] = turn.send
        self.dropped = False

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the turn, or here if it was dropped."""
        if not self.dropped:
            return self._turn.throw(*error)
        self.close()
        raise asyncio.CancelledError

    def close(self) -> None:
        """End the turn; what it does about that is its own affair."""
        with contextlib.suppress(BaseException):
            self._turn.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._turn.__await__()


def _watch_children_without_threads() -> None:
    """Have asyncio wait for programs by descriptors, as it does by itself from Python 3.12 on."""
    if sys.version_info < (3, 12) and sys.platform == "linux":
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.PidfdChildWatcher())


async def _readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(sock, note)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


class _Printed:
    """What one turn has printed: its end, at most `OUTPUT_CEILING` characters."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size - len(self._pieces[0]) > OUTPUT_CEILING:
            self._size -= len(self._pieces.popleft())

    def text(self) -> str:
        return "".join(self._pieces)[-OUTPUT_CEILING:]


class _PrintedByTask:
    """A text stream that keeps what a turn writes with the turn, and passes on the rest."""

    def __init__(self, stream: IO[str], printed: dict[int, _Printed]) -> None:
        self._stream = stream
        self._printed = printed

    def write(self, text: str) -> int:
        turn = state.task_turn.get()
        if turn is None:
            return self._stream.write(text)
        self._printed.setdefault(turn.ticket, _Printed()).add(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
