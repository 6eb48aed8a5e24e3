"""Answers as values and exceptions: what a worker sent, as the caller receives it.

Loading a value runs users' code, so a fault there is the fault of that one turn.
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from hmz_mp.errors import RemoteTraceback, TurnFailed, Unpicklable
from hmz_mp_worker import wire
from hmz_mp_worker.payload import load

__all__ = ["failure_of", "load_failure", "load_packed", "load_value"]

# Raised in a coroutine, these would end or confuse the caller instead of failing its turn.
_NOT_RAISED = (
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    StopAsyncIteration,
)


def load_value(answer: wire.Answer, buffers: list[memoryview], name: str) -> Any:
    """Return an answer's value. Raises `Unpicklable` when it cannot be loaded here."""
    try:
        return load(answer.data, buffers)
    except BaseException as error:
        raise _unloadable(name, error) from error


def _unloadable(name: str, error: BaseException) -> Unpicklable:
    return Unpicklable(
        f"the result of {name}", f"loading it raised {type(error).__name__}: {error}"
    )


def load_packed(ok: bool, data: bytes, name: str) -> Any:
    """Return the value of one of a pack's items, or raise what it failed with."""
    if not ok:
        raise failure_of(data)
    try:
        return pickle.loads(data)
    except BaseException as error:
        raise _unloadable(name, error) from error


def load_failure(answer: wire.Answer) -> BaseException:
    """Return the exception that a failed answer stands for."""
    return failure_of(answer.data)


def failure_of(data: bytes) -> BaseException:
    """Return the exception that a packed failure stands for."""
    failure = wire.decode_failure(data)
    cause = RemoteTraceback(failure.traceback)
    error = _exception(failure)
    error.__cause__ = cause
    return error


def _exception(failure: wire.Failure) -> BaseException:
    if failure.unpicklable:
        return Unpicklable(failure.unpicklable, f"{failure.type_name}: {failure.text}")
    if failure.pickle:
        try:
            error = pickle.loads(failure.pickle)
        except BaseException:  # the user's code; what can be said is said below
            error = None
        if isinstance(error, BaseException) and not isinstance(error, _NOT_RAISED):
            return error
    return TurnFailed(failure.type_name, failure.text, failure.traceback)
