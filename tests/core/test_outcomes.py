from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from hmz_mp.core.outcomes import failure_of, unloadable
from hmz_mp.errors import RemoteTraceback, TurnFailed, Unpicklable
from hmz_mp_worker import payload, wire


class Unloadable:
    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> Any:
        return eval, (self.code,)


def answer(data: bytes, *, ok: bool = True, buffers: int = 0) -> wire.Answer:
    return wire.Answer(1, ok, data, 0.0, 0.0, b"", buffers)


def failed(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return failure_of(payload.pack_failure(raised), "f")


def test_a_value_that_cannot_be_loaded() -> None:
    reason = ZeroDivisionError("division by zero")
    error = unloadable("f", reason)
    assert error.__cause__ is reason
    assert "the result of f cannot be carried" in str(error)
    assert "loading it raised ZeroDivisionError: division by zero" in str(error)


def test_an_exception_keeps_its_type_and_brings_its_traceback() -> None:
    error = failed(KeyError("k"))
    assert repr(error) == "KeyError('k')"
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in failed" in error.__cause__.text


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(1),
        StopAsyncIteration(),
        asyncio.CancelledError(),
    ],
)
def test_what_would_end_the_caller_arrives_wrapped(error: BaseException) -> None:
    wrapped = failed(error)
    assert isinstance(wrapped, TurnFailed)
    assert wrapped.type_name.endswith(type(error).__name__)
    assert "Traceback" in wrapped.traceback


def test_other_base_exceptions_arrive_as_they_are() -> None:
    class Mine(BaseException):
        pass

    assert type(failed(Mine("m"))).__name__ == "Mine"


def test_an_exception_without_a_pickle() -> None:
    failure = wire.Failure(b"", "a.Strange", "what it said", "Traceback ...")
    error = failure_of(wire.encode(failure), "f")
    assert isinstance(error, TurnFailed)
    assert (error.type_name, error.text, error.traceback) == (
        "a.Strange",
        "what it said",
        "Traceback ...",
    )


@pytest.mark.parametrize("value", [Unloadable("1 / 0"), "no exception", Unloadable("exit()")])
def test_an_exception_that_cannot_be_loaded_here(value: Any) -> None:
    failure = wire.Failure(pickle.dumps(value), "a.Strange", "text", "Traceback ...")
    error = failure_of(wire.encode(failure), "f")
    assert isinstance(error, TurnFailed)
    assert str(error) == "a.Strange: text"


def test_a_result_that_could_not_be_pickled() -> None:
    failure = wire.Failure(b"", "TypeError", "no locks", "Traceback ...", "the result, of type x,")
    error = failure_of(wire.encode(failure), "f")
    assert isinstance(error, Unpicklable)
    assert (error.what, error.reason) == ("the result, of type x,", "TypeError: no locks")
