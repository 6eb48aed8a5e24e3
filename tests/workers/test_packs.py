"""Packs: each item's ending is its own."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from hmz_mp_worker import wire
from hmz_mp_worker.packs import Pack


def fail_on_two(value: int) -> int:
    if value == 2:
        raise ValueError("two")
    return value * 10


def test_plain_answers_come_as_they_are() -> None:
    assert Pack(divmod)([(7, 2), (9, 4)]) == (None, [(True, pickle.dumps((3, 1), 5)),
                                                     (True, pickle.dumps((2, 1), 5))])  # fmt: skip
    assert Pack(pow)([(2, 3), (3, 2)]) == ([8, 9], None)
    assert Pack(pow)([]) == ([], None)


def test_a_failure_stands_in_its_place_and_the_rest_runs() -> None:
    values, each = Pack(fail_on_two)([(1,), (2,), (3,)])
    assert values is None
    assert each is not None
    assert [ok for ok, _ in each] == [True, False, True]
    failure = wire.decode_failure(each[1][1])
    assert (failure.type_name, failure.text) == ("ValueError", "two")
    assert "in fail_on_two" in failure.traceback
    assert "hmz_mp_worker" not in failure.traceback
    assert pickle.loads(each[2][1]) == 30


def test_what_ends_a_process_fails_its_item() -> None:
    def leave(value: int) -> None:
        raise SystemExit(value)

    _, each = Pack(leave)([(3,)])
    assert each is not None
    assert wire.decode_failure(each[0][1]).type_name == "SystemExit"


def test_a_value_that_cannot_be_pickled_fails_its_item() -> None:
    def odd(value: int) -> Any:
        return threading.Lock() if value else "fine"

    _, each = Pack(odd)([(0,), (1,)])
    assert each is not None
    assert each[0] == (True, pickle.dumps("fine", 5))
    assert "lock" in wire.decode_failure(each[1][1]).unpicklable
