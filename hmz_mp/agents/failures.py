"""A failed agent turn, whatever failed it, as one type with one line of reason.

Knows the errors of workers and backends; knows nothing of pools or agents.
"""

from __future__ import annotations

import subprocess
import traceback
from typing import TYPE_CHECKING

from hmz_mp.agents.schema import NotOfSchema
from hmz_mp.core.breaker import Busy
from hmz_mp.errors import (
    HmzMpError,
    MemoryExceeded,
    RemoteTraceback,
    TurnFailed,
    TurnTimeout,
    WorkerDied,
)
from hmz_mp_worker.backends.protocol import AgentFailed
from hmz_mp_worker.backends.sh import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp_worker.backends.protocol import FailureKind

__all__ = [
    "Failed",
    "Unrecoverable",
    "busy_of",
    "detail_of",
    "failed_by",
    "kind_of",
    "pressure_of",
    "type_of",
    "worth_retrying",
]

# What another try may not meet again. What was denied, refused or not accepted would be so once
# more, at the same price; for a schema it was asked again in its conversation already.
_PASSING: frozenset[FailureKind] = frozenset({"limited", "overloaded", "stalled", "died"})

DETAIL_TAIL = 4096  # characters of stdout, for a command that failed and said nothing on stderr


class Failed(HmzMpError, subprocess.CalledProcessError):
    """Raised when an agent turn failed.

    ``reason`` is one line. ``returncode`` is the program's exit status (negative for a signal), 1
    for a Python function that raised, 124 for a timeout, 137 for too much memory. ``cmd`` is the
    agent as written, or the program and its arguments. ``output`` and ``stderr`` are texts, as
    far as there are any; ``item_id`` is the item; ``cause`` the exception behind it, if any.

    ``kind`` says what sort of failure it is where an agent's program failed, else it is ``None``:
    ``refused``, ``denied``, ``limited``, ``overloaded``, ``unauthorised``, ``too_long``,
    ``schema``, ``stalled`` or ``died``. ``retry_after`` is how many seconds the service asked to
    be left alone, if it did.
    """

    def __init__(
        self,
        reason: str,
        *,
        returncode: int = 1,
        cmd: str | Sequence[str] = "",
        output: str | None = None,
        stderr: str | None = None,
        item_id: str = "",
        cause: BaseException | None = None,
        kind: FailureKind | None = None,
        retry_after: float | None = None,
    ) -> None:
        Exception.__init__(self, reason)
        self.reason = reason
        self.returncode = returncode
        self.cmd = cmd
        self.output = output
        self.stderr = stderr
        self.item_id = item_id
        self.cause = cause
        self.kind = kind
        self.retry_after = retry_after
        self.__cause__ = cause

    def __str__(self) -> str:
        return f"{self.item_id}: {self.reason}" if self.item_id else self.reason


class Unrecoverable(Failed):
    """Raised when an agent turn failed in a way that nothing can make up for.

    Its conversation does not fit the model any more (``kind`` is ``too_long``). ``suppress=True``
    does not suppress it.
    """


def failed_by(error: BaseException, *, cmd: str | Sequence[str], item_id: str) -> Failed:
    """Return the failure that ``error`` makes of a turn."""
    output: str | None = None
    stderr: str | None = str(error)
    returncode = 1
    retry_after: float | None = None
    if isinstance(error, AgentFailed):
        returncode, output, stderr = error.status or 1, error.answer, error.detail
        retry_after = error.retry_after
    elif isinstance(error, CommandFailed):
        returncode, output, stderr = error.returncode, error.output, error.stderr
    elif isinstance(error, WorkerDied):
        returncode = -error.signal if error.signal is not None else error.exitcode or 1
        stderr = error.stderr_tail
    elif isinstance(error, TurnTimeout):
        returncode = 124
    elif isinstance(error, MemoryExceeded):
        returncode = 137
    kind = kind_of(error)
    failed = Unrecoverable if kind == "too_long" else Failed
    return failed(
        _reason(error),
        returncode=returncode,
        cmd=cmd,
        output=output,
        stderr=stderr,
        item_id=item_id,
        cause=error,
        kind=kind,
        retry_after=retry_after,
    )


def kind_of(error: BaseException) -> FailureKind | None:
    """Return which of `protocol.FAILURES` a failure is, or ``None`` if it is none of them."""
    if isinstance(error, AgentFailed):
        return error.kind
    return "schema" if isinstance(error, NotOfSchema) else None


def busy_of(error: BaseException) -> Busy | None:
    """Return whether a turn failed as its service is too busy, and for how long that asked."""
    if isinstance(error, AgentFailed) and error.kind in ("limited", "overloaded"):
        return Busy(error.retry_after)
    return None


def pressure_of(error: BaseException) -> Busy | None:
    """Return the same for a turn that is not to be put back."""
    busy = busy_of(error)
    return busy._replace(again=False) if busy is not None else None


def worth_retrying(error: BaseException) -> bool:
    """Whether a turn that failed so may succeed when it is tried again, for all that is known."""
    kind = kind_of(error)
    return kind is None or kind in _PASSING


def type_of(error: BaseException) -> str:
    """Return the name of the exception's type, as the code that raised it has it."""
    if isinstance(error, TurnFailed):
        return error.type_name
    return type(error).__qualname__


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    first = text.splitlines()[0].strip() if text else ""
    if isinstance(
        error, (AgentFailed, CommandFailed, HmzMpError)
    ):  # these say all of it themselves
        return first or type_of(error)
    return f"{type_of(error)}: {first}" if first else type_of(error)


def detail_of(error: BaseException) -> str:
    """Return what explains a failure: the end of stderr, or a traceback."""
    if isinstance(error, AgentFailed):
        return error.detail if error.detail.strip() else error.answer[-DETAIL_TAIL:]
    if isinstance(error, CommandFailed):
        return error.stderr if error.stderr.strip() else error.output[-DETAIL_TAIL:]
    if isinstance(error, WorkerDied):
        return error.stderr_tail
    if isinstance(error, TurnFailed) and error.traceback:
        return error.traceback
    if isinstance(error.__cause__, RemoteTraceback):
        return error.__cause__.text
    return "".join(traceback.format_exception(error))
