"""A zygote and its workers, spoken to by frames: blocking sockets, no pool, no policy."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle

import hmz_mp_worker
from hmz_mp_worker import payload, wire
from hmz_mp_worker.arena import Arena
from hmz_mp_worker.framing import Buffer, FrameReader, frame_parts, send_all
from hmz_mp_worker.page import anonymous_file
from hmz_mp_worker.stdio import output_file

HOME = str(Path(hmz_mp_worker.__file__).parent.parent)
CODE = (
    "import sys; sys.path.append(sys.argv[3]); "
    "from hmz_mp_worker.bootstrap import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
SECONDS = 20.0


class Wire:
    """One end of a connection, blocking, inside a bound."""

    def __init__(self, sock: socket.socket, decode: Callable[[bytes], Any]) -> None:
        sock.settimeout(SECONDS)
        self.sock = sock
        self._decode = decode
        self._reader = FrameReader()
        self._messages: deque[tuple[Any, list[Buffer]]] = deque()

    def send(self, message: Any, buffers: Sequence[bytes] = ()) -> None:
        send_all(self.sock, frame_parts(wire.encode(message), buffers))

    def receive(self) -> Any:
        """Return the next message."""
        return self.receive_with_buffers()[0]

    def receive_with_buffers(self) -> tuple[Any, list[Buffer]]:
        while not self._messages:
            count = self.sock.recv_into(self._reader.target())
            if not count:
                raise EOFError
            for body, buffers in self._reader.received(count):
                self._messages.append((self._decode(bytes(body)), buffers))
        return self._messages.popleft()

    def at_end(self) -> bool:
        """Whether nothing more comes. Waits for that or for something."""
        try:
            return not self._messages and not self.sock.recv(1, socket.MSG_PEEK)
        except ConnectionResetError:
            return True


class RawWorker(Wire):
    """A worker: what it sends, what it prints, what its page says."""

    def __init__(self, number: int, sock: socket.socket, output: int, page: int) -> None:
        super().__init__(sock, wire.decode_from_worker)
        self.number = number
        self.output = output
        self.page = page
        self.arena = Arena(page)
        self.pid = 0
        self._tickets = 0
        self._calls: dict[int, wire.Call] = {}
        self._answers: deque[wire.Answer] = deque()

    def welcome(
        self,
        *,
        version: int = wire.VERSION,
        initializer: bytes = b"",
        cwd: str | None = None,
        log_level: int = 30,
    ) -> Any:
        """Greet it; return what it answers."""
        self.send(
            wire.Welcome(version, self.number, sys.path, cwd or os.getcwd(), log_level, initializer)
        )
        return self.receive()

    def send(self, message: Any, buffers: Sequence[bytes] = ()) -> None:
        if isinstance(message, wire.Calls):
            self._calls.update((call.ticket, call) for call in message.calls)
        super().send(message, buffers)

    def call(self, function: Any, *args: Any, session: int = 0, **kwargs: Any) -> int:
        """Send one call, its function by value in it; return its ticket."""
        return self.calls([(function, args, kwargs)], session=session)[0]

    def calls(self, several: Sequence[tuple[Any, Any, Any]], session: int = 0) -> list[int]:
        """Send calls in one frame."""
        calls = []
        for one in several:
            self._tickets += 1
            calls.append(wire.Call(self._tickets, 0, cloudpickle.dumps(one), session))
        self.send(wire.Calls([], calls))
        return [call.ticket for call in calls]

    def answer(self) -> wire.Answer:
        """Return the next answer; what is given back is sent again."""
        while not self._answers:
            message = self.receive()
            if isinstance(message, wire.GaveBack):
                self.send(wire.Calls([], [self._calls[ticket] for ticket in message.tickets]))
            else:
                assert isinstance(message, wire.Answers), message
                self._answers.extend(message.answers)
        return self._answers.popleft()

    def value(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Run one call to its end; return its value."""
        self.call(function, *args, **kwargs)
        return value_of(self.answer())

    def close(self) -> None:
        self.arena.close()
        self.sock.close()
        os.close(self.output)
        os.close(self.page)


def value_of(answer: wire.Answer) -> Any:
    assert answer.ok, wire.decode_failure(answer.data).traceback
    return payload.load(answer.data)


def error_of(answer: wire.Answer) -> Any:
    assert not answer.ok
    return pickle.loads(wire.decode_failure(answer.data).pickle)


class RawZygote(Wire):
    """A zygote whose coordinator is this process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        super().__init__(ours, wire.decode_from_zygote)
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), HOME]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CODE, *arguments],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.workers: list[RawWorker] = []
        self.pid = 0

    def boot(self, **changes: Any) -> Any:
        """Boot it; return what it answers."""
        settings = {"version": wire.VERSION, "sys_path": sys.path, "preload": [], "niceness": 0}
        self.send(wire.Boot(**{**settings, **changes}))
        answer = self.receive()
        if isinstance(answer, wire.Booted):
            self.pid = answer.pid
        return answer

    def fork(self, *, host: bool = False) -> RawWorker:
        """Have it fork a worker, not welcomed yet."""
        number = len(self.workers) + 1
        ours, theirs = socket.socketpair()
        output = output_file(anonymous_file("output"))
        page = anonymous_file("page")
        with theirs:
            (frame,) = frame_parts(wire.encode(wire.Fork(number, host)))
            socket.send_fds(self.sock, [frame], [theirs.fileno(), output, page])
        worker = RawWorker(number, ours, output, page)
        self.workers.append(worker)
        forked = self.receive()
        assert isinstance(forked, wire.Forked), forked
        assert forked.worker == number
        worker.pid = forked.pid
        return worker

    def ready(self, *, host: bool = False) -> RawWorker:
        """Have it fork a worker, and welcome it."""
        worker = self.fork(host=host)
        assert worker.welcome() == wire.Ready(wire.VERSION, worker.pid)
        return worker

    def close(self) -> str:
        """Leave, as a coordinator does; return what the zygote had to say."""
        self.sock.close()
        try:
            _, said = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for worker in self.workers:
            worker.close()
        return said


@contextmanager
def raw_zygote() -> Iterator[RawZygote]:
    """A booted zygote, which has to end in silence."""
    zygote = RawZygote()
    try:
        assert zygote.boot() == wire.Booted(wire.VERSION, zygote.pid)
        yield zygote
    finally:
        said = zygote.close()
    assert (zygote.process.returncode, said) == (0, "")
