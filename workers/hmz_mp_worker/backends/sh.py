"""A turn of an ``sh/`` agent: a program per item, many at a time on one worker's loop.

Owns the placeholders, the program's descriptors and its end. It never runs a shell.

``{path}``, ``{prompt}``, ``{item_id}`` and ``{task}`` are put inside the word they stand in, which
stays one argument whatever it holds; any other braces are left alone. A path that begins with
``-`` is given as ``./-...``, so that no program takes it for an option. The prompt is on stdin. The
answer is the whole of stdout, less one newline at its end; bytes that are not UTF-8 survive as
``os.fsdecode`` has them. What is written is also said as it comes, as ``text``.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hmz_mp_worker.backends import Request
from hmz_mp_worker.backends.tree import Tree, why_not_started
from hmz_mp_worker.reporting import say

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GRACE", "STDERR_TAIL", "CommandFailed", "arguments", "arun", "aturn"]

GRACE = 1.0  # seconds between SIGTERM and SIGKILL
STDERR_TAIL = 4096  # bytes
_PLACEHOLDER = re.compile(r"\{(path|prompt|item_id|task)\}")


class CommandFailed(Exception):
    """Raised when the program could not be run, exited with a status, or was ended by a signal.

    ``returncode`` is as in `subprocess`: negative for a signal, 127 for a program that was not
    found, 126 for one that could not be run. ``stderr`` is the last 4 KiB, ``output`` all of
    stdout.
    """

    def __init__(self, returncode: int, reason: str, output: str = "", stderr: str = "") -> None:
        super().__init__(returncode, reason, output, stderr)  # all of them: it is pickled
        self.returncode = returncode
        self.reason = reason
        self.output = output
        self.stderr = stderr

    def __str__(self) -> str:
        last = next((line for line in reversed(self.stderr.splitlines()) if line.strip()), "")
        return f"{self.reason}: {last.strip()}" if last else self.reason


async def aturn(words: Sequence[str], *pieces: Any) -> str:
    """Do `arun` with a request in pieces."""
    return await arun(words, Request.of(*pieces))


async def arun(words: Sequence[str], request: Request) -> str:
    """Run the program for one item and return what it wrote to stdout."""
    argv = arguments(words, request)
    program = _Program(asyncio.get_running_loop())
    try:
        cancelled = await program.tree.start(
            lambda: program, argv, cwd=request.cwd, environment=os.environ
        )
    except OSError as error:
        raise _not_started(argv[0], request.cwd, error) from error
    try:
        if cancelled is not None:
            raise cancelled
        program.feed(request.prompt.encode("utf-8", "surrogateescape"))
        await program.finished()
    except BaseException:
        await program.end()
        raise
    finally:
        program.close()
    return program.answer(Path(argv[0]).name)


def arguments(words: Sequence[str], request: Request) -> list[str]:
    """Put the request into the words of a command. Raises `CommandFailed` when it has no path."""

    def value(match: re.Match[str]) -> str:
        if match[1] != "path":
            return cast(str, getattr(request, match[1]))
        if request.path is None:
            raise CommandFailed(2, "the command wants {path}, and this turn is about no file")
        path = os.fsdecode(request.path)
        return f"./{path}" if path.startswith("-") else path

    return [_PLACEHOLDER.sub(value, word) for word in words]


def _not_started(program: str, cwd: str | None, error: OSError) -> CommandFailed:
    is_there = not isinstance(error, FileNotFoundError) or (
        cwd is not None and not Path(cwd).is_dir()
    )
    return CommandFailed(126 if is_there else 127, why_not_started(program, cwd, error))


class _Program(asyncio.SubprocessProtocol):
    """One running program: from its start to its exit and the end of both its outputs.

    A protocol rather than asyncio's streams: no task per pipe, no limit on a line, and the exit is
    seen even while a child of the program holds its stdout open.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tree = Tree()
        self._transport: asyncio.SubprocessTransport
        self._exited: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._open = {1, 2}
        self._output: list[bytes] = []
        self._stderr = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._output.append(data)
            say("text", data)
        else:
            self._stderr = (self._stderr + data)[-STDERR_TAIL:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._open.discard(fd)
        if not self._open and not self._closed.done():
            self._closed.set_result(None)

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def feed(self, data: bytes) -> None:
        """Write stdin and close it. A program that does not read it is no error."""
        stdin = cast(Any, self._transport.get_pipe_transport(0))
        stdin.write(data)
        stdin.close()

    async def finished(self) -> None:
        """Wait for the exit and for both outputs to end.

        What the program left running may hold them open; it gets the same grace, then it is ended.
        """
        await asyncio.wait([self._exited])  # awaited itself, a cancellation would mark it done
        if not await self._all_closed():
            self.tree.signal(signal.SIGKILL)
            await self._all_closed()

    async def _all_closed(self) -> bool:
        await asyncio.wait([self._closed], timeout=GRACE)
        return self._closed.done()

    def close(self) -> None:
        """Close its descriptors here."""
        self._transport.close()

    async def end(self) -> None:
        """End all that the program started: SIGTERM, some grace, SIGKILL; return once it is gone.

        Only the program's group is told first, as it may end what is elsewhere itself.
        """
        self.tree.look()
        try:
            self.tree.signal(signal.SIGTERM)
            await self.tree.group_gone(GRACE)
        finally:
            self.tree.kill()
            await asyncio.wait([self._exited], timeout=GRACE)

    def answer(self, name: str) -> str:
        """Return stdout as text. Raises `CommandFailed` for any status but 0."""
        output = b"".join(self._output).decode("utf-8", "surrogateescape")
        status = self._transport.get_returncode()
        if status == 0:
            return re.sub(r"\r?\n\Z", "", output)
        status = -signal.SIGKILL if status is None else status
        how = f"exited with status {status}" if status > 0 else f"was ended by {_name(-status)}"
        stderr = self._stderr.decode("utf-8", "surrogateescape")
        raise CommandFailed(status, f"{name} {how}", output, stderr)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
