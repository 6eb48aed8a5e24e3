"""Every error of hmz_mp, when it is raised, and its data as attributes.

Anything may import this module; it imports only the standard library. Each error survives
pickling, whatever its ``__init__`` takes, because it is rebuilt from its attributes.
"""

from __future__ import annotations

import signal as _signal
from concurrent.futures import BrokenExecutor
from typing import Any

__all__ = [
    "BadInput",
    "BudgetExceeded",
    "HmzMpError",
    "InitializerFailed",
    "ItemFailed",
    "MemoryExceeded",
    "PoolClosed",
    "ProtocolError",
    "RemoteTraceback",
    "Stopped",
    "TurnFailed",
    "TurnTimeout",
    "Unpicklable",
    "WorkerDied",
    "WorkerStartFailed",
]


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> object:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class HmzMpError(Exception):
    """The base of every error that hmz_mp raises of its own."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class BadInput(HmzMpError):
    """Raised when something the user wrote has to be corrected before any turn starts.

    The command line prints its text and exits with status 2.
    """


class WorkerDied(HmzMpError):
    """Raised when the worker process that ran a turn ended before the turn did.

    ``exitcode`` is set when the process exited, ``signal`` when a signal ended it; the other
    is ``None``. ``stderr_tail`` is the end of what the turn had printed.
    """

    def __init__(
        self,
        pid: int | None = None,
        *,
        exitcode: int | None = None,
        signal: int | None = None,
        stderr_tail: str = "",
        doing: str = "a turn",
    ) -> None:
        self.pid = pid
        self.exitcode = exitcode
        self.signal = signal
        self.stderr_tail = stderr_tail
        tail = f"; it last printed:\n{stderr_tail.rstrip()}" if stderr_tail.strip() else ""
        super().__init__(f"worker {pid} {self._ending()} while it ran {doing}{tail}")

    def _ending(self) -> str:
        if self.signal is not None:
            return f"was ended by {_signal_name(self.signal)}"
        if self.exitcode is not None:
            return f"exited with status {self.exitcode}"
        return "was lost"


def _signal_name(number: int) -> str:
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class WorkerStartFailed(WorkerDied, BrokenExecutor):
    """Raised when workers could not be started, after a bounded number of tries.

    Nothing else can run then, so it is a `concurrent.futures.BrokenExecutor`.
    """

    def __init__(self, reason: str, *, stderr_tail: str = "") -> None:
        super().__init__(stderr_tail=stderr_tail)
        self.reason = reason
        tail = f"; it printed:\n{stderr_tail.rstrip()}" if stderr_tail.strip() else ""
        self.args = (f"no worker could be started: {reason}{tail}",)


class InitializerFailed(WorkerStartFailed):
    """Raised for every turn of a pool whose ``initializer`` raised or ended its worker."""


class TurnTimeout(HmzMpError, TimeoutError):
    """Raised when a turn ran past its ``timeout``, or was not done by its ``deadline``.

    ``seconds`` is the limit that passed; ``clock`` says which of the two it was.
    """

    def __init__(self, seconds: float, *, clock: str = "timeout") -> None:
        self.seconds = seconds
        self.clock = clock
        since = "beginning to run" if clock == "timeout" else "being submitted"
        super().__init__(f"the turn was not done {seconds:g} s after {since}; it was stopped")


class MemoryExceeded(HmzMpError):
    """Raised when a turn's worker, with its children, held more memory than ``memory=`` allows.

    ``limit`` and ``used`` are in bytes.
    """

    def __init__(self, limit: int, used: int) -> None:
        self.limit = limit
        self.used = used
        super().__init__(
            f"the turn held {used:,} bytes, over its limit of {limit:,}; it was stopped"
        )


class Unpicklable(HmzMpError):
    """Raised when a function, an argument or a result cannot be carried between processes.

    ``what`` says which object.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what} cannot be carried between processes: {reason}")


class TurnFailed(HmzMpError):
    """Raised when a turn failed with an exception that cannot be raised here as it was.

    That is an exception that cannot be pickled or unpickled, and ``SystemExit`` or
    ``KeyboardInterrupt``, which would end the caller. ``type_name``, ``text`` and
    ``traceback`` are the exception's own.
    """

    def __init__(self, type_name: str, text: str, traceback: str = "") -> None:
        self.type_name = type_name
        self.text = text
        self.traceback = traceback
        super().__init__(f"{type_name}: {text}" if text else type_name)


class RemoteTraceback(HmzMpError):
    """The ``__cause__`` of an exception raised in a worker: that worker's traceback, as text."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


class ItemFailed(HmzMpError):
    """Raised by ``fan_out(on_failure="fail")`` for an item whose finding says that it failed.

    ``reason`` is what the finding says.
    """

    def __init__(self, item_id: str, reason: str) -> None:
        self.item_id = item_id
        self.reason = reason
        super().__init__(f"{item_id}: {reason}")


class Stopped(HmzMpError):
    """Raised by a turn of an agent, or of a run, that was told to take no more turns."""

    def __init__(self, reason: str = "stopped") -> None:
        self.reason = reason
        super().__init__(reason)


class PoolClosed(HmzMpError, RuntimeError):
    """Raised when a pool is used before it was entered or after it was left."""


class BudgetExceeded(Stopped):
    """Raised by new turns once a run has spent what ``--max-cost`` or ``--max-tokens`` allows."""


class ProtocolError(HmzMpError):
    """Raised when a worker and its coordinator do not understand each other."""
