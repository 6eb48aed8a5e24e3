from __future__ import annotations

import pickle
import random
from collections import OrderedDict, deque
from typing import Any

import pytest

from hmz_mp_worker import proving
from hmz_mp_worker.payload import Payload, dump

LOADED: list[int] = []


class Counted:
    """Counts how often it is loaded."""

    def __reduce__(self) -> Any:
        return _count, ()


class Other(Counted):
    def __reduce__(self) -> Any:
        return _count_otherwise, ()


def _count() -> None:
    LOADED.append(1)


def _count_otherwise() -> None:
    LOADED.append(2)


def _fail() -> None:
    LOADED.append(3)
    raise SystemExit(3)


class Failing:
    def __reduce__(self) -> Any:
        return _fail, ()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "_proved", set())
    LOADED.clear()


def test_what_was_loaded_once_is_not_loaded_again() -> None:
    for _ in range(3):
        proving.prove(dump([Counted(), Counted()]))
    assert LOADED == [1, 1]
    proving.prove(dump({"a": [Counted(), Other()]}))
    assert LOADED == [1, 1, 1, 2]


def test_what_raises_is_passed_on_and_tried_again() -> None:
    proving.prove(dump([Failing()]))
    proving.prove(dump([Failing()]))
    assert LOADED == [3, 3]


@pytest.mark.parametrize(
    "value", [[1, 2.5, "x"], {"a": (b"\x93\x94", None)}, random.Random(1).randbytes(1 << 20)]
)
def test_plain_values_are_never_loaded(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = dump(value)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(pickle, "loads", refuse)
    assert list(proving._named(payload.data)) == []


def test_a_name_that_was_a_string_before_is_found() -> None:
    """The pickle names it by the string's number."""
    value = ["_count", "tests.workers.test_proving", Counted(), OrderedDict(), deque([1])]
    assert len(list(proving._named(dump(value).data))) == 3
    proving.prove(dump(value))
    assert LOADED == [1]


def test_buffers_beside_the_pickle() -> None:
    class Big:
        def __reduce_ex__(self, _: Any) -> Any:
            return bytearray, (pickle.PickleBuffer(bytearray(1 << 17)),)

    payload = dump(Big())
    assert payload.buffers
    proving.prove(payload)
    assert proving._proved
    proving.prove(Payload(b""))
