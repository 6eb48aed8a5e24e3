from __future__ import annotations

import copy
import inspect
import pickle
import signal
from typing import Any

import pytest

from hmz_mp import errors
from hmz_mp.errors import (
    BadInput,
    BudgetExceeded,
    HmzMpError,
    InitializerFailed,
    ItemFailed,
    MemoryExceeded,
    PoolClosed,
    ProtocolError,
    RemoteTraceback,
    Stopped,
    TurnFailed,
    TurnTimeout,
    Unpicklable,
    WorkerDied,
    WorkerStartFailed,
)

# One of each, and what its message has to name.
EXAMPLES: list[tuple[HmzMpError, list[str]]] = [
    (HmzMpError("plain"), ["plain"]),
    (BadInput("no such flow: x"), ["no such flow: x"]),
    (WorkerDied(42, exitcode=3), ["worker 42", "exited with status 3", "a turn"]),
    (
        WorkerDied(42, signal=signal.SIGKILL, stderr_tail="oops\n", doing="f for item 'a'"),
        ["42", "SIGKILL", "f for item 'a'", "oops"],
    ),
    (WorkerDied(42, signal=99), ["signal 99"]),
    (WorkerDied(), ["was lost"]),
    (WorkerStartFailed("no memory", stderr_tail="last"), ["no memory", "last"]),
    (InitializerFailed("it raised KeyError: 'a'"), ["KeyError: 'a'"]),
    (TurnTimeout(1.5), ["1.5 s", "beginning to run"]),
    (TurnTimeout(2, clock="deadline"), ["2 s", "being submitted"]),
    (MemoryExceeded(1000, 2_000_000), ["2,000,000 bytes", "1,000"]),
    (Unpicklable("argument 1 of f", "TypeError: a lock"), ["argument 1 of f", "TypeError: a lock"]),
    (TurnFailed("SystemExit", "3", "Traceback"), ["SystemExit: 3"]),
    (TurnFailed("Strange", ""), ["Strange"]),
    (RemoteTraceback("Traceback\n  line\n"), ["Traceback\n  line"]),
    (ItemFailed("svc-3", "no route"), ["svc-3: no route"]),
    (Stopped(), ["stopped"]),
    (Stopped("--max-failures 3"), ["--max-failures 3"]),
    (PoolClosed("the pool was left"), ["the pool was left"]),
    (BudgetExceeded("--max-cost 5 is spent"), ["--max-cost 5"]),
    (ProtocolError("unknown tag 9"), ["unknown tag 9"]),
]
by_name = pytest.mark.parametrize(
    ("error", "words"),
    EXAMPLES,
    ids=[f"{type(one).__name__}-{one.args[0]!r:.20}" for one, _ in EXAMPLES],
)


def everyone() -> set[type]:
    return {
        one
        for _, one in inspect.getmembers(errors, inspect.isclass)
        if one.__module__ == errors.__name__
    }


def test_every_error_is_tried_here_and_listed() -> None:
    assert {type(one) for one, _ in EXAMPLES} == everyone()
    assert {one.__name__ for one in everyone()} == set(errors.__all__)


@by_name
def test_one_base(error: HmzMpError, words: list[str]) -> None:
    assert isinstance(error, HmzMpError)


@by_name
def test_messages_name_the_thing(error: HmzMpError, words: list[str]) -> None:
    assert [word for word in words if word not in str(error)] == []


@by_name
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_they_survive_pickling(error: HmzMpError, words: list[str], protocol: int) -> None:
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is type(error)
    assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))


@by_name
def test_they_survive_copying(error: HmzMpError, words: list[str]) -> None:
    back = copy.copy(error)
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_notes_and_own_attributes_survive() -> None:
    error: Any = TurnTimeout(3)
    error.add_note("seen")
    error.mine = [1]
    back = pickle.loads(pickle.dumps(error))
    assert (back.__notes__, back.mine, back.seconds, back.clock) == (["seen"], [1], 3, "timeout")


def test_data_as_attributes() -> None:
    died = WorkerDied(5, exitcode=1, stderr_tail="tail")
    assert (died.pid, died.exitcode, died.signal, died.stderr_tail) == (5, 1, None, "tail")
    over = MemoryExceeded(1, 2)
    assert (over.limit, over.used) == (1, 2)
    failed = TurnFailed("T", "text", "trace")
    assert (failed.type_name, failed.text, failed.traceback) == ("T", "text", "trace")


def test_what_they_are_beside() -> None:
    assert issubclass(TurnTimeout, TimeoutError)
    assert issubclass(PoolClosed, RuntimeError)
    assert issubclass(InitializerFailed, WorkerStartFailed)
    assert issubclass(WorkerStartFailed, WorkerDied)


def test_every_one_says_when_it_is_raised() -> None:
    silent = [one.__name__ for one in everyone() if not one.__doc__]
    assert silent == []
