"""Where items come from: read in place for a bounded time, or ahead by a task."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from hmz_mp.core.loop import current_driver
from hmz_mp.core.sources import Source, source_of
from tests.helpers import await_until

pytestmark = pytest.mark.anyio


def spend(seconds: float) -> None:
    time.sleep(seconds)


async def read_one(items: Source) -> None:
    found = items.take(1)
    while not found:
        await anyio.sleep(0.001)
        found = items.take(1)


def source(*iterables: Any) -> Source:
    return source_of(iterables, current_driver())


async def test_one_iterable_gives_its_values_and_several_give_tuples() -> None:
    assert source(range(3)).take(5) == [0, 1, 2]
    assert source(range(3), "abcd").take(2) == [(0, "a"), (1, "b")]


async def test_it_is_over_when_less_came_than_was_asked_for() -> None:
    items = source(range(3))
    assert (items.take(3), items.over) == ([0, 1, 2], False)
    assert (items.take(1), items.over) == ([], True)
    assert items.take(1) == []


async def test_what_came_before_an_error_is_not_lost() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise KeyError("source")

    items = source(broken())
    assert items.take(100) == [0, 1, 2, 3, 4]
    assert items.over
    with pytest.raises(KeyError, match="source"):
        items.check()


@pytest.mark.parametrize("quick", [0, 1000])
async def test_reading_is_cut_short_when_it_takes_long(quick: int) -> None:
    def slowly() -> Iterator[int]:
        for at in range(10_000):
            if at >= quick:
                time.sleep(0.005)
            yield at

    items = source(slowly())
    read = items.take(quick) if quick else []
    while len(read) < quick + 3:
        before = len(read)
        read += items.take(10_000)
        if before >= quick:
            assert items.slow
    assert read == list(range(len(read)))
    assert len(read) <= quick + 40  # what was read between two looks at the clock


async def test_a_quick_source_is_not_called_slow() -> None:
    items = source(range(1_000_000))
    reads = [items.take(1000) for _ in range(20)]
    assert sum(len(one) == 1000 for one in reads) >= 10  # but where this process has to wait
    assert [value for one in reads for value in one] == list(range(sum(map(len, reads))))


async def test_an_async_one_is_read_as_far_ahead_as_was_asked_for_last() -> None:
    seen = 0

    async def count() -> AsyncIterator[int]:
        nonlocal seen
        while True:
            seen += 1
            yield seen

    items = source(count())
    assert items.take(1) == []
    await await_until(lambda: seen)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert seen == 1
    assert items.take(50) == [1]
    await await_until(lambda: seen >= 50)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert seen <= 51
    assert items.take(50) == list(range(2, 52))
    await items.close()


async def test_an_async_one_with_a_sync_one() -> None:
    async def letters() -> AsyncIterator[str]:
        for letter in "abc":
            await anyio.lowlevel.checkpoint()
            yield letter

    items = source(range(9), letters())
    found: list[Any] = []
    while not items.over:
        found += items.take(2)
        await anyio.lowlevel.checkpoint()
    assert found + items.take(5) == [(0, "a"), (1, "b"), (2, "c")]
    await items.close()


async def test_one_that_never_waits_leaves_the_loop_its_turn() -> None:
    async def busy() -> AsyncIterator[int]:
        for at in range(100):
            spend(0.0005)
            yield at

    items = source(busy())
    items.take(1)
    found: list[int] = []
    turns = 0
    while not items.over:
        await anyio.lowlevel.checkpoint()
        turns += 1
        found += items.take(1000)
    assert found + items.take(1000) == list(range(100))
    assert turns > 10
    await items.close()


# Async generators are closed, whatever they were doing, in the task that they ran in.


@pytest.mark.parametrize("where", ["unread", "waiting to be taken", "waiting inside"])
async def test_closing(where: str) -> None:
    said: list[str] = []

    async def generate() -> AsyncGenerator[int, None]:
        try:
            async with anyio.create_task_group() as group:  # has to be left where it was entered
                group.start_soon(anyio.sleep_forever)
                yield 1
                if where == "waiting inside":
                    await anyio.sleep_forever()
                yield 2
        finally:
            if where != "waiting inside":  # there it is cancelled
                await anyio.sleep(0.001)
            said.append("closed")

    generator = generate()
    items = source(generator)
    if where == "unread":
        await items.close()
        assert said == []
        await generator.aclose()
        return
    await read_one(items)
    await anyio.lowlevel.checkpoint()
    await items.close()
    assert said == ["closed"]


async def test_what_closing_raises_is_raised() -> None:
    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise OSError("could not be closed")

    items = source(generate())
    await read_one(items)
    with pytest.raises(OSError, match="could not be closed"):
        await items.close()


async def test_closing_can_be_cancelled() -> None:
    said: list[str] = []

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            said.append("leaving")
            try:
                await anyio.sleep_forever()
            finally:
                said.append("left")

    items = source(generate())
    await read_one(items)
    await anyio.lowlevel.checkpoint()
    with anyio.move_on_after(0.02) as scope:
        await items.close()
    assert scope.cancelled_caught
    assert said == ["leaving", "left"]
