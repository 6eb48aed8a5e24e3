"""Answers as values and exceptions: what a worker sent, as the caller receives it.

Loading a value runs users' code, so a fault there is the fault of that one turn.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

from hmz_mp.errors import RemoteTraceback, TurnFailed, Unpicklable
from hmz_mp_worker import wire
from hmz_mp_worker.payload import text_of

__all__ = ["another", "failure_of", "load_packed", "unloadable"]

# Raised in a coroutine, these would end or confuse the caller instead of failing its turn.
_NOT_RAISED = (
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    StopAsyncIteration,
)


def unloadable(name: str, error: BaseException) -> Unpicklable:
    """Return the failure of a turn whose result's loading raised ``error``."""
    again = Unpicklable(
        f"the result of {name}", f"loading it raised {type(error).__name__}: {text_of(error)}"
    )
    again.__cause__ = error
    return again


def load_packed(ok: bool, data: bytes, name: str) -> Any:
    """Return the value of one of a pack's items, or raise what it failed with."""
    if not ok:
        raise failure_of(data, name)
    try:
        return pickle.loads(data)
    except BaseException as error:
        raise unloadable(name, error) from error


def another(error: BaseException) -> BaseException:
    """Return an error of ours again, without the traceback of those who raised it."""
    again = copy.copy(error)
    again.__cause__ = error.__cause__
    return again


def failure_of(data: bytes, name: str) -> BaseException:
    """Return the exception that a packed failure of function ``name`` stands for."""
    failure = wire.decode_failure(data)
    cause = RemoteTraceback(failure.traceback)
    error = _exception(failure, name)
    # By the base: the user's class may have a __setattr__ of its own.
    BaseException.__setattr__(error, "__cause__", cause)
    return error


def _exception(failure: wire.Failure, name: str) -> BaseException:
    if failure.unpicklable:
        what = failure.unpicklable
        if what in ("the arguments of", "the function"):  # that could not be loaded in the worker
            what = f"{what} {name}"
        return Unpicklable(what, f"{failure.type_name}: {failure.text}")
    if failure.pickle:
        try:
            error = pickle.loads(failure.pickle)
        except BaseException:  # the user's code; what can be said is said below
            error = None
        if isinstance(error, BaseException) and not isinstance(error, _NOT_RAISED):
            return error
    return TurnFailed(failure.type_name, failure.text, failure.traceback)
