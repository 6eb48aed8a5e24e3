"""The call worker: one blocking call at a time, in the order in which they were sent.

While calls run, a watching thread looks every now and then whether the same one still runs. If so
it sends the answers that wait and gives back what has not begun, also what was sent since, so that
neither waits behind a call that turned out heavy. A call that holds the GIL delays that.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections import deque
from itertools import count, repeat
from pickle import loads
from time import monotonic
from typing import Any

from hmz_mp_worker import running, state, wire
from hmz_mp_worker.arena import Region
from hmz_mp_worker.between import Key, changes
from hmz_mp_worker.framing import Buffer, FrameReader
from hmz_mp_worker.link import Link
from hmz_mp_worker.stdio import Output
from hmz_mp_worker.waiting import Waiter

__all__ = ["CallWorker"]

_LOOK_EVERY = 0.01  # seconds between looks at first; they get rarer while the same call runs
_LOOK_RARELY = 0.05
_SHORT = 1e-5  # seconds; after a call that ran no longer, fewer system calls look for its traces
_NOTHING: dict[str, Any] = {}
# A ticket, its call, and a plain one's arguments or the buffers of another.
_Queued = tuple[int, wire.Call, bytes | list[Buffer]]


class CallWorker:
    """Runs calls until it is told to retire or its coordinator is gone."""

    # The whole state: what waits, what runs (its ticket), the sessions' dicts, the functions; what
    # the watching thread read that is the main thread's to do; who may read (both threads do).
    def __init__(self, sock: socket.socket, link: Link, output: Output, inbox: Region) -> None:
        self._sock = sock
        self._link = link
        self._output = output
        self._reader = FrameReader()
        self._queue: deque[_Queued] = deque()
        self._functions = running.Functions(inbox)
        self._sessions: dict[int, dict[str, Any]] = {}
        self._turn = state.RunningTurn(0, 0, self._sessions, link)  # the same for every call
        self._kept: dict[int, dict[Key, Any]] = {}  # what sessions that ask for it have changed
        self._ticket = 0
        self._retiring = False
        self._watch: _Watch | None = None
        self._later: deque[wire.ToWorker] = deque()
        self._reading = threading.Lock()
        self._waiter = Waiter(sock)
        self._alone = False  # whether the last call came alone

    def run(self) -> None:
        """Serve the coordinator; return when it is done with this worker."""
        queue, later = self._queue, self._later
        while True:
            while True:
                while later:
                    self._take(later.popleft(), [])
                try:  # not `while queue`: the watching thread may empty it in between
                    ticket, call, data = queue.popleft()
                except IndexError:
                    break
                self._run(ticket, call, data)
            self._link.flush()
            if self._retiring or not self._receive():
                return

    def _run(self, ticket: int, call: wire.Call, data: bytes | list[Buffer]) -> None:
        turn, process, link = self._turn, state.process, self._link
        self._ticket = turn.ticket = ticket
        turn.session = call.session
        process.turn = turn
        link.begin(ticket)
        began = monotonic()
        try:
            if isinstance(data, bytes):
                function, args, kwargs = self._functions.get(call.function), loads(data), _NOTHING
            else:
                function, args, kwargs = self._functions.resolve(call, data)
            if call.keep:
                changes.bring(self._kept.get(call.session, {}))
            value = function(*args, **kwargs)
        except BaseException as error:  # any exception is the call's ending, SystemExit too
            if process.forked:
                running.leave_fork(error)
            output = self._put_back(call)
            link.answer(running.pack_error(ticket, error, began, output, sys._getframe()))
        else:
            if process.forked:
                running.leave_fork(None)
            seconds = monotonic() - began
            quiet = seconds < _SHORT and not changes.any() and self._output.is_untouched()
            output = b"" if quiet else self._put_back(call)
            link.answer(*running.pack_answer(ticket, value, began, seconds, output))
        self._ticket = 0
        process.turn = None

    def _put_back(self, call: wire.Call) -> bytes:
        """Make the process as it was before a call; return what the call printed."""
        output = self._output.take()
        if changes.any():
            changed = changes.put_back()
            if call.keep:
                self._kept[call.session] = changed
        return output

    def _receive(self) -> bool:
        """Wait for frames and take them in; return False at the connection's end."""
        with self._reading:
            if self._queue or self._later:  # read by the watching thread in between
                return True
            if self._alone:
                self._waiter.wait()
            return self._read()

    def _read(self) -> bool:
        taken = False
        while not taken:
            got = self._sock.recv_into(self._reader.target())
            if not got:
                return False
            for body, buffers in self._reader.received(got):
                self._take(wire.decode_to_worker(body), buffers)
                taken = True
        return True

    def _take(self, message: wire.ToWorker, buffers: list[Buffer]) -> None:
        if isinstance(message, (wire.Run, wire.Calls)):
            self._take_calls(message, buffers)
        elif isinstance(message, wire.Forget):
            self._functions.forget(message.functions)
            for session in message.sessions:
                self._sessions.pop(session, None)
                self._kept.pop(session, None)
        elif isinstance(message, wire.Paths):
            running.follow_paths(message)
        elif isinstance(message, wire.Retire):
            self._retiring = True

    def _take_calls(self, message: wire.Run | wire.Calls, buffers: list[Buffer]) -> None:
        for function in message.functions:
            self._functions.add(function)
        if isinstance(message, wire.Run):
            call = wire.Call(0, message.function, b"", plain=True)
            self._queue.extend(zip(count(message.first_ticket), repeat(call), message.arguments))
        else:
            at = 0
            for call in message.calls:
                data = call.data if call.plain else buffers[at : at + call.buffers]
                self._queue.append((call.ticket, call, data))
                at += call.buffers
        self._alone = len(self._queue) == 1
        if self._watch is None:
            self._watch = _Watch(self)
        self._watch.wake()

    def look(self, seen: int) -> int:
        """Relieve what waits if the call of ticket ``seen`` still runs; return what runs now."""
        ticket = self._ticket
        if ticket and ticket == seen:
            state.process.late = ticket
            self._read_ahead()
            tickets = self._give_back()
            if tickets:
                self._link.send(wire.GaveBack(tickets, ticket))
            else:
                self._link.flush()
        return ticket

    def _read_ahead(self) -> None:
        """Take in what was sent behind the running call."""
        if not self._reading.acquire(blocking=False):  # the main thread reads: the call has ended
            return
        try:
            # At the connection's end there is nothing to do here: the main thread finds it too.
            while got := self._sock.recv_into(self._reader.target(), 0, socket.MSG_DONTWAIT):
                for body, buffers in self._reader.received(got):
                    message = wire.decode_to_worker(body)
                    if isinstance(message, (wire.Run, wire.Calls)):
                        self._take_calls(message, buffers)
                    else:  # a working directory, say, does not change under a running call
                        self._later.append(message)
        except BlockingIOError:
            pass
        finally:
            self._reading.release()

    def _give_back(self) -> list[int]:
        tickets: list[int] = []
        while True:
            try:  # pop from the end while the main thread pops from the start: each call goes once
                ticket, call, _ = self._queue.pop()
            except IndexError:
                return tickets[::-1]
            self._functions.give_back(call)
            tickets.append(ticket)

    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._queue and not self._ticket


class _Watch:
    """The watching thread: asleep while the worker is idle, so that it costs nothing then."""

    def __init__(self, worker: CallWorker) -> None:
        self._worker = worker
        self._awake = threading.Event()
        threading.Thread(target=self._run, name="hmz-mp-watch", daemon=True).start()

    def wake(self) -> None:
        """Begin to look."""
        if not self._awake.is_set():
            self._awake.set()

    def _run(self) -> None:
        # A signal that this thread took would not wake the main one, where handlers run.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        seen, looks = 0, 1
        while True:
            self._awake.wait()
            time.sleep(min(looks * _LOOK_EVERY, _LOOK_RARELY))
            if self._worker.idle():
                self._awake.clear()
                # A frame may have come between the look and the clear: look once more.
                if not self._worker.idle():
                    self._awake.set()
                seen, looks = 0, 1
            else:
                try:
                    before, seen = seen, self._worker.look(seen)
                except OSError:  # the coordinator is gone; the main thread ends the worker
                    return
                looks = looks + 1 if seen == before else 1
