from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from hmz_mp.core.functions import Function, FunctionTable, pack_arguments
from hmz_mp.core.jobs import Lane
from hmz_mp.core.shipment import Shipment
from hmz_mp.engines.packing import pack
from hmz_mp_worker import wire
from hmz_mp_worker.arena import Arena, Region
from hmz_mp_worker.page import Page, anonymous_file

LARGE = b"x" * 300_000


@pytest.fixture
def inbox() -> Iterator[Region]:
    fd = anonymous_file("page")
    page = Page(fd)
    arena = Arena(fd).open()
    yield arena.inbox
    arena.close()
    page.close()
    os.close(fd)


@pytest.fixture
def table() -> FunctionTable:
    return FunctionTable()


def job(ticket: int, function: Function, lane: Lane, *args: Any, **kwargs: Any) -> Shipment:
    payload = pack_arguments(len, args, kwargs)
    made = Shipment(ticket, lane, function.timing, function=function, payload=payload)
    made.ticket = ticket
    return made


def packed(jobs: list[Shipment], known: set[int], inbox: Region, kind: Any = "call") -> list[Any]:
    return [wire.decode_to_worker(body) for body, _ in pack(jobs, kind, known, inbox)]


def test_plain_calls_of_one_function_are_a_run(table: FunctionTable, inbox: Region) -> None:
    function, lane, known = table.resolve(len), Lane(1, "call"), set[int]()
    (run,) = packed([job(at, function, lane, at, "b") for at in (5, 6)], known, inbox)
    assert isinstance(run, wire.Run)
    assert (run.function, run.first_ticket) == (function.id, 5)
    assert [pickle.loads(one) for one in run.arguments] == [(5, "b"), (6, "b")]
    assert run.functions == [wire.Function(function.id, function.data)]
    assert known == {function.id}
    (again,) = packed([job(7, function, lane, 7)], known, inbox)
    assert again.functions == []


def test_calls_of_several_lanes_are_a_run_too(table: FunctionTable, inbox: Region) -> None:
    function = table.resolve(len)
    jobs = [job(at, function, Lane(at, "call"), at) for at in (1, 2, 3)]
    (run,) = packed(jobs, set(), inbox)
    assert isinstance(run, wire.Run)


def unlike(table: FunctionTable) -> dict[str, list[Shipment]]:
    one, other = table.resolve(len), table.resolve(abs)
    lane, session = Lane(1, "call"), Lane(2, "call", serial=True)
    return {
        "two functions": [job(1, one, lane, 1), job(2, other, lane, 2)],
        "tickets with a gap": [job(1, one, lane, 1), job(3, one, lane, 3)],
        "a session's first": [job(1, one, session, 1)],
        "a session's among others": [job(1, one, lane, 1), job(2, one, session, 2)],
        "by keyword": [job(1, one, lane, 1), job(2, one, lane, a=2)],
        "not plain": [job(1, one, lane, 1), job(2, one, lane, [2])],
    }


@pytest.mark.parametrize("what", unlike(FunctionTable()))
def test_all_else_goes_call_by_call(table: FunctionTable, inbox: Region, what: str) -> None:
    jobs = unlike(table)[what]
    (calls,) = packed(jobs, set(), inbox)
    assert isinstance(calls, wire.Calls)
    assert [call.ticket for call in calls.calls] == [one.ticket for one in jobs]
    assert [call.function for call in calls.calls] == [one.function.id for one in jobs]
    assert [bool(call.session) for call in calls.calls] == [one.lane.serial for one in jobs]
    for call, one in zip(calls.calls, jobs, strict=True):
        assert call.plain is isinstance(one.payload, bytes)
        value = pickle.loads(call.data)
        assert isinstance(value, tuple)


def test_a_host_gets_calls(table: FunctionTable, inbox: Region) -> None:
    (calls,) = packed([job(1, table.resolve(len), Lane(1, "host"), 1)], set(), inbox, kind="host")
    assert isinstance(calls, wire.Calls)
    assert calls.calls[0].plain


def test_large_values_go_beside_the_message(table: FunctionTable, inbox: Region) -> None:
    function, lane = table.resolve(len), Lane(1, "call")
    ((body, buffers),) = pack([job(1, function, lane, LARGE)], "call", set(), inbox)
    calls = wire.decode_to_worker(body)
    assert isinstance(calls, wire.Calls)
    (call,) = calls.calls
    assert len(body) < 1000
    assert call.data == b""
    assert (call.shared is not None) != (call.buffers > 0)
    assert len(buffers) == call.buffers


def test_large_functions_travel_alone(inbox: Region) -> None:
    large, small = (Function(at, b"f" * size, "call", "f") for at, size in ((1, 1 << 21), (2, 9)))
    lane, known = Lane(1, "call"), set[int]()
    first, last = packed([job(1, large, lane, 1), job(2, small, lane, 2)], known, inbox)
    assert [one.id for one in first.functions] == [1]
    assert first.calls == []
    assert [one.id for one in last.functions] == [2]
    assert known == {1, 2}
