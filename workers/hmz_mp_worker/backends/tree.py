"""A program and everything it started: how it is begun, found again, and ended.

Owns the mark that a program carries in its environment, which what it starts inherits, in whatever
session, group or parentage it runs. On macOS, where environments are not to be seen, a program's
process group is all that is found.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp_worker import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Tree", "why_not_started"]

_LOOK = 0.02  # seconds between looks at processes, whose ends nothing announces
_DESCRIPTORS = 8192  # four for each program, and a worker has hundreds
_numbers = itertools.count(1)


class Tree:
    """The processes of one program, which leads a session and process group of its own."""

    # The whole state: the mark, the program's pid once it runs, and what was seen below it.
    def __init__(self) -> None:
        self._mark = f"{os.getpid()}.{next(_numbers)}"
        self._pid = 0
        self._seen: set[int] = set()

    async def start(
        self,
        protocol: Callable[[], asyncio.SubprocessProtocol],
        argv: Sequence[str],
        *,
        cwd: str | None,
        environment: Mapping[str, str],
    ) -> asyncio.CancelledError | None:
        """Start the program; return the cancellation that came meanwhile. Raises what `exec` does.

        asyncio, cancelled in mid-start, kills the program alone and may wait for its pipes for
        ever; a start takes milliseconds, so it is let through.
        """
        _allow_descriptors()
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            loop.subprocess_exec(
                protocol,
                *argv,
                cwd=cwd,
                env={**environment, kernel.MARK: self._mark},
                start_new_session=True,
            )
        )
        cancelled: asyncio.CancelledError | None = None
        while not starting.done():
            try:
                await asyncio.wait([starting])
            except asyncio.CancelledError as cancellation:
                cancelled = cancellation
        error = starting.exception()
        if error is None:
            self._pid = starting.result()[0].get_pid()
            return cancelled
        if cancelled is not None:
            raise cancelled
        raise error

    def look(self) -> None:
        """Remember what is below the program now: once it has ended, less is to be seen."""
        self._seen.update(self._below())

    def signal(self, number: int) -> bool:
        """Send a signal to the program and its group; False if there is nothing left of those."""
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM for zombies
            return False
        return True

    def kill(self) -> None:
        """Kill the group and everything else."""
        self.signal(signal.SIGKILL)
        kernel.signal_all(self._left(), [], signal.SIGKILL)

    async def group_gone(self, seconds: float) -> None:
        """Wait for the end of the process group, at most so long."""
        await self._until(lambda: not self.signal(0), seconds)

    async def gone(self, seconds: float) -> None:
        """Wait for the end of everything, at most so long."""
        await self._until(lambda: not any(map(kernel.is_running, self._left())), seconds)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + seconds
        while not condition() and now() < deadline:  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(_LOOK)

    def _below(self) -> list[int]:
        # The zygote, this worker's parent, adopts what has lost its own parent.
        entry = self._entry()
        found = [one for one in kernel.children(os.getppid()) if kernel.bears(one, entry)]
        below = [other for one in found for other in kernel.descendants(one)]
        return [*kernel.descendants(self._pid), *found, *below]

    def _left(self) -> list[int]:
        """Return what is left. A pid that was seen before may be another process's by now."""
        entry = self._entry()
        return [*(one for one in self._seen if kernel.bears(one, entry)), *self._below()]

    def _entry(self) -> bytes:
        return f"{kernel.MARK}={self._mark}".encode()


def _allow_descriptors() -> None:
    """Have room for the pipes of hundreds of programs: the usual limit is meant for `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def why_not_started(program: str, cwd: str | None, error: Exception) -> str:
    """Return why a program could not be started, as far as the system says."""
    if cwd is not None and not Path(cwd).is_dir():
        return f"{program} was not run: {cwd} is not a directory"
    if isinstance(error, FileNotFoundError):
        return f"{program}: no such program was found"
    said = error.strerror if isinstance(error, OSError) else None
    return f"{program} could not be run: {said or error}"
