"""Large values there and back: as what they were, without a copy too many, and freed in time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import anyio.lowlevel
import pytest

from hmz_mp import Pool
from hmz_mp_worker.arena import ROOM, SLOTS
from tests.core import functions
from tests.helpers import await_until

pytestmark = pytest.mark.anyio

MIB = 1 << 20
SIZES = [100_000, ROOM - 100, ROOM + 1, 20 * MIB]


@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(bytearray(data))])
async def test_bytes_and_views(kind: Any) -> None:
    async with Pool(1) as pool:
        for size in SIZES:
            value = kind(os.urandom(size))
            back = await pool.run(functions.identity, value)
            assert type(back) is type(value)
            assert back == value


async def test_many_at_a_time() -> None:
    async with Pool(2) as pool:
        await pool.run(functions.identity, 0)  # known to be short, so that many are sent ahead
        for size in SIZES:
            values = [bytes([at]) * size for at in range(2 * SLOTS)]
            turns = [pool.submit(functions.identity, value) for value in values]
            assert [await turn for turn in turns] == values


async def test_an_argument_that_changes_after_it_was_submitted() -> None:
    data = bytearray(b"a" * MIB)
    async with Pool(1) as pool:
        turns = [pool.submit(functions.identity, one) for one in (data, memoryview(data), [data])]
        data[:] = bytes(MIB)
        expected = b"a" * MIB
        bare, view, (inside,) = [await turn for turn in turns]
        assert bare == view == inside == expected
        data.clear()  # nobody holds a view of it


class Block:
    """Pickles as arrays do, and can be watched."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Block, (pickle.PickleBuffer(self.data),)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_values_are_freed_when_nobody_holds_them() -> None:
    """Not when the garbage collector runs, to which 100 MiB are an object like any other."""
    argument = Block(bytearray(MIB))
    async with Pool(1) as pool:
        await pool.run(functions.identity, 0)
        with no_collection():
            turn = pool.submit(functions.identity, argument)
            kept = weakref.ref(await turn)
            assert kept() is not None
            del turn
            await anyio.lowlevel.checkpoint()  # the loop holds it during the step that it woke
            assert kept() is None


async def test_arguments_are_freed_with_their_turns_end() -> None:
    async with Pool(1) as pool:
        await pool.run(len, "")
        turn: Any = pool.submit(len, bytes(MIB))
        payload = turn.job.payload
        assert payload.buffers
        before = sys.getrefcount(payload)
        assert await turn == MIB
        await await_until(lambda: sys.getrefcount(payload) < before)


async def test_a_failed_turn_holds_no_argument() -> None:
    async with Pool(1) as pool:
        turn: Any = pool.submit(int, b"x" * MIB)
        with pytest.raises(ValueError, match="invalid literal"):
            await turn
        assert turn.job.payload == b""
        assert "failed" in repr(turn)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_loop_goes_on_while_a_large_value_travels() -> None:
    """No step of the loop takes a whole value in, or gives one out."""
    value = bytes(200 * MIB)
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0)
            steps += 1

    async with Pool(1) as pool:
        await pool.run(len, "")
        counter = asyncio.create_task(count())
        try:
            assert await pool.run(len, value) == len(value)
            there, steps = steps, 0
            assert len(await pool.run(bytes, len(value))) == len(value)
            back = steps
        finally:
            counter.cancel()
    assert min(there, back) >= len(value) >> 23


numpy_arrays: list[Callable[[Any], Any]] = [
    lambda numpy: numpy.arange(100_000.0),
    lambda numpy: numpy.arange(6_000_000).reshape(2, 3, -1),
    lambda numpy: numpy.asfortranarray(numpy.arange(60_000).reshape(200, 300)),
    lambda numpy: numpy.arange(600_000)[::2],
    lambda numpy: numpy.zeros(50_000, dtype=[("a", "i4"), ("b", "f8")]),
    lambda numpy: numpy.arange(3),
]


async def test_numpy_arrays() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    async with Pool(1) as pool:
        for make in numpy_arrays:
            array = make(numpy)
            turn = pool.submit(functions.identity, array)
            expected = array.copy()
            array[...] = 0
            back = await turn
            assert (back.dtype, back.shape) == (expected.dtype, expected.shape)
            assert numpy.array_equal(back, expected)
            assert back.flags.writeable


async def test_a_large_numpy_array_is_used_where_it_was_received() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    async with Pool(1) as pool:
        back = await pool.run(numpy.arange, 10 * MIB // 8)
        base = back
        while isinstance(base, numpy.ndarray) and base.base is not None:
            base = base.base
        base = base.obj if isinstance(base, memoryview) else base
        assert type(base) is bytearray
        assert len(base) == back.nbytes
        back += 1


async def test_arrow_tables() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pyarrow.table({"n": list(range(300_000)), "s": [str(n) for n in range(300_000)]})
    async with Pool(1) as pool:
        back = await pool.run(functions.identity, table)
        assert back.equals(table)
