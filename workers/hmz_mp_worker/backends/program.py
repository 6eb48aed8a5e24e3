"""One program that speaks in lines: its start, what it says, and its end with all it started.

Owns the process and its descriptors; what is below it is its `tree`. What the lines mean is the
backend's. asyncio alone: no thread and no task per program, so that one loop holds hundreds.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hmz_mp_worker import state
from hmz_mp_worker.backends.tree import Tree, why_not_started

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CLOSE_GRACE",
    "LINE_CEILING",
    "TAIL",
    "TERM_GRACE",
    "Program",
    "ProgramFailed",
]

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL; Claude Code ends its tools in under 2
CLOSE_GRACE = 1.5  # seconds to exit once stdin is closed, before it is told to
LINE_CEILING = 1 << 24  # bytes of one line
TAIL = 4096  # bytes kept of what is no part of the protocol
_WAITING_CEILING = 1 << 22  # bytes of whole lines that wait before the program is not read
_QUIET = 0.2  # seconds without output, after its exit, that are taken for the end of it


class ProgramFailed(Exception):
    """Raised when a program could not be started, or what it wrote cannot be taken."""


class Program(asyncio.SubprocessProtocol, state.Resource):
    """A running program. Made by `start`; over once `end` or `close` has returned.

    Its whole state: its tree and transport; lines that were not taken and the beginning of the
    next; who waits for a line; the tail of what it said beside its protocol; what of it is over.
    """

    def __init__(self, name: str, tree: Tree) -> None:
        self._name = name
        self._tree = tree
        self._transport: asyncio.SubprocessTransport
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._part = bytearray()
        self._overlong = False
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._ended_output = False
        self._quiet = False
        self._over = False
        self._tail = b""
        self._exited = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str | None, environment: Mapping[str, str]
    ) -> Program:
        """Start a program in a session of its own. Raises `ProgramFailed`."""
        tree = Tree()
        program = cls(Path(argv[0]).name, tree)
        try:
            cancelled = await tree.start(lambda: program, argv, cwd=cwd, environment=environment)
        except (OSError, ValueError) as error:
            raise ProgramFailed(why_not_started(argv[0], cwd, error)) from error
        state.hold(program)
        if cancelled is not None:
            await program.end()
            raise cancelled
        return program

    def __repr__(self) -> str:
        return f"<Program {self._name} {self._transport.get_pid()} exited={self.status}>"

    # What it is.

    @property
    def alive(self) -> bool:
        """Whether it runs, and can be spoken to."""
        stdin = cast(Any, self._transport.get_pipe_transport(0))
        return not self._exited.done() and not self._ended_output and not stdin.is_closing()

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; ``None`` while it runs."""
        return self._transport.get_returncode()

    @property
    def tail(self) -> str:
        """The end of what it wrote that is no part of its protocol: stderr, and odd lines."""
        return self._tail.decode("utf-8", "backslashreplace")

    # Its descriptors: asyncio.SubprocessProtocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the process."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take what it wrote."""
        if fd == 2:
            self.note(data)
            return
        self._quiet = False
        begin = 0
        while (at := data.find(b"\n", begin)) >= 0:
            self._take_line(data[begin:at])
            begin = at + 1
        if len(self._part) + len(data) - begin > LINE_CEILING:
            self._part.clear()
            self._overlong = True
        elif not self._overlong:
            self._part += data[begin:]
        if self._waiting > _WAITING_CEILING and not self._paused:
            self._paused = True
            cast(Any, self._transport.get_pipe_transport(1)).pause_reading()
        if self._lines or self._overlong:
            self._wake()

    def _take_line(self, rest: bytes) -> None:
        line = bytes(self._part) + rest
        self._part.clear()
        if line.strip() and not self._overlong:
            self._lines.append(line)
            self._waiting += len(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """Note the end of a pipe."""
        if fd == 1:
            self._take_line(b"")
            self._ended_output = True
            self._wake()

    def process_exited(self) -> None:
        """Note its exit. What it wrote before is still to come."""
        if not self._exited.done():
            self._exited.set_result(None)
        self._quiet = False
        self._look_for_output()

    def _look_for_output(self) -> None:
        """Wait for its stdout to end; what it left running may hold it open for ever."""
        if self._quiet:
            self._ended_output = True
            self._wake()
        elif not self._ended_output:
            self._quiet = not self._paused
            asyncio.get_running_loop().call_later(_QUIET, self._look_for_output)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # Speaking.

    async def line(self, timeout: float) -> bytes | None:
        """Return its next line, or ``None`` once there are no more.

        Raises `TimeoutError` after that many seconds, and `ProgramFailed` for an endless line.
        """
        while not self._lines:
            if self._overlong:
                raise ProgramFailed(f"{self._name} wrote a line of more than {LINE_CEILING} bytes")
            if self._ended_output:
                return None
            if self._paused:
                self._resume()
            await self._wait(timeout)
        line = self._lines.popleft()
        self._waiting -= len(line)
        return line

    def _resume(self) -> None:
        self._paused = False
        pipe = cast(Any, self._transport.get_pipe_transport(1))
        if not pipe.is_closing():
            pipe.resume_reading()

    async def _wait(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        reader = self._reader = loop.create_future()
        late = loop.call_later(timeout, _time_out, reader)
        try:
            await reader
        finally:
            late.cancel()
            self._reader = None

    def drop_lines(self) -> None:
        """Forget what it wrote and nobody took."""
        self._lines.clear()
        self._waiting = 0
        if self._paused:
            self._resume()

    def write(self, line: bytes) -> None:
        """Give it a line to read. A program that does not read it is no error here."""
        stdin = cast(Any, self._transport.get_pipe_transport(0))
        if not stdin.is_closing():
            stdin.write(line + b"\n")

    def feed(self, data: bytes) -> None:
        """Give it all that it will ever read."""
        stdin = cast(Any, self._transport.get_pipe_transport(0))
        if not stdin.is_closing():
            stdin.write(data)
        stdin.close()

    def note(self, data: bytes) -> None:
        """Keep something of what it wrote beside its protocol."""
        self._tail = (self._tail + data)[-TAIL:]

    # Its end.

    async def exited(self, timeout: float) -> bool:
        """Wait for its exit, at most so many seconds; return whether it has."""
        await asyncio.wait([self._exited], timeout=timeout)  # awaited itself, it could be cancelled
        return self._exited.done()

    async def close(self) -> None:
        """Let it end by itself, by closing its stdin; then `end` it, and what it left."""
        cast(Any, self._transport.get_pipe_transport(0)).close()
        try:
            await self.exited(CLOSE_GRACE)
        finally:
            await self.end()

    async def end(self) -> None:
        """End it and everything it started: SIGTERM, some grace, SIGKILL; return once it is gone.

        Only the program and its group are told first: it ends its tools better than we do.
        """
        if self._over:
            return
        self._tree.look()
        try:
            if self._tree.signal(signal.SIGTERM):
                await self._tree.group_gone(TERM_GRACE)
        finally:
            self._tree.kill()
            await self.exited(1.0)
            await self._tree.gone(1.0)
            self._over = True
            self._transport.close()
            state.release(self)


def _time_out(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_exception(TimeoutError())
