"""Packs: each item's ending is its own."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hmz_mp_worker import wire
from hmz_mp_worker.between import changes
from hmz_mp_worker.packs import Pack
from hmz_mp_worker.state import RunningTurn, process


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


def test_items_of_one_argument() -> None:
    assert Pack(abs, single=True)([-1, -2]) == ([1, 2], None)
    assert Pack(len, single=True)([(1, 2), (3,)]) == ([2, 1], None)


class Speaker:
    def say(self, ticket: int, kind: str, data: bytes) -> None:
        raise AssertionError


@pytest.fixture
def turn() -> Iterator[RunningTurn]:
    process.turn = RunningTurn(7, 0, {}, Speaker())
    yield process.turn
    process.turn, process.late = None, 0


@pytest.mark.usefixtures("turn")
@pytest.mark.parametrize("raises", [False, True])
def test_a_pack_that_takes_long_is_cut_short_after_the_item_that_runs(raises: bool) -> None:
    def grow_late(value: int) -> int:
        if value == 2:
            process.late = 7
            if raises:
                raise ValueError(value)
        return value

    values, each = Pack(grow_late, single=True, divisible=True)(list(range(10)))
    if raises:
        assert each is not None
        assert [ok for ok, _ in each] == [True, True, False]
    else:
        assert values == [0, 1, 2]


@pytest.mark.usefixtures("turn")
def test_another_turn_that_was_late_cuts_nothing_short() -> None:
    process.late = 6
    assert Pack(abs, single=True, divisible=True)([-1, -2]) == ([1, 2], None)


@pytest.mark.usefixtures("turn")
def test_a_pack_that_has_to_stay_whole_is_not_cut_short() -> None:
    process.late = 7
    assert Pack(abs, single=True)([-1, -2]) == ([1, 2], None)


def test_large_values_stay_inside() -> None:
    _, each = Pack(bytearray, single=True)([1 << 17, 1])
    assert each is not None
    assert [pickle.loads(data) for _, data in each] == [bytearray(1 << 17), bytearray(1)]
    _, each = Pack(memoryview, single=True)([b"x" * (1 << 17)])
    assert each is not None
    assert pickle.loads(each[0][1]) == b"x" * (1 << 17)


def append_path(value: int) -> int:
    sys.path.append(str(value))
    return len(sys.path)


def replace_path(value: int) -> int:
    before = len(sys.path)
    sys.path = [*sys.path, str(value)]
    return before


@pytest.mark.parametrize("change", [append_path, replace_path])
def test_no_item_sees_what_another_has_changed(change: Any) -> None:
    changes.accept()
    values, _ = Pack(change, single=True)([1, 2, 3])
    assert values is not None
    assert len(set(values)) == 1
    assert not changes.any()
