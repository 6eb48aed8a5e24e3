from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hmz_mp_worker.backends.shared import Shared
from tests.helpers import await_until


class Program:
    """One that counts how it was ended."""

    def __init__(self) -> None:
        self.alive = True
        self.closed = self.ended = 0

    async def close(self) -> None:
        self.closed += 1
        self.alive = False

    async def end(self) -> None:
        self.ended += 1
        self.alive = False


class Maker:
    """Starts programs, once it may."""

    def __init__(self) -> None:
        self.made: list[Program] = []
        self.go = asyncio.Event()

    async def __call__(self) -> Program:
        await self.go.wait()
        self.made.append(Program())
        return self.made[-1]


def run(body: Callable[[Shared[Program], Maker], Awaitable[object]], seconds: float = 9.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(15):
            await body(Shared(seconds), Maker())

    asyncio.run(bounded())


def test_many_wait_for_one_start() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        waiting = [asyncio.ensure_future(shared.acquire("a", make)) for _ in range(5)]
        other = asyncio.ensure_future(shared.acquire("b", make))
        await await_until(lambda: shared.users("a") == 5)
        make.go.set()
        found = await asyncio.gather(*waiting)
        assert len(set(found)) == 1
        assert await other not in found
        assert len(make.made) == 2

    run(body)


def test_one_that_has_ended_is_started_again() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        make.go.set()
        async with shared.use("a", make) as first:
            first.alive = False
            async with shared.use("a", make) as second:
                assert second is not first
            assert first.ended == 1
        assert not second.closed

    run(body)


def test_a_start_that_fails_fails_for_that_one_alone() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        async def fail() -> Program:
            raise OSError("no")

        make.go.set()
        with pytest.raises(OSError, match="no"):
            await shared.acquire("a", fail)
        assert shared.users("a") == 0
        assert await shared.acquire("a", make) is make.made[0]

    run(body)


def test_a_start_that_is_cancelled() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        first, second = (asyncio.ensure_future(shared.acquire("a", make)) for _ in range(2))
        await await_until(lambda: shared.users("a") == 2)
        first.cancel()
        make.go.set()
        assert await second is make.made[0]
        assert shared.users("a") == 1

    run(body)


def test_one_that_nobody_uses_is_closed_after_a_while() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        make.go.set()
        async with shared.use("a", make) as program, shared.use("a", make):
            pass
        await await_until(lambda: program.closed)
        assert shared.users("a") == 0
        async with shared.use("a", make) as other:
            assert other is not program

    run(body, 0.02)


def test_one_can_be_closed_at_once() -> None:
    async def body(shared: Shared[Program], make: Maker) -> None:
        make.go.set()
        first, second = [await shared.acquire("a", make) for _ in range(2)]
        assert first is second
        shared.release("a", at_once=True)
        await asyncio.sleep(0)
        assert not first.closed
        shared.release("a", at_once=True)
        await await_until(lambda: first.closed)

    run(body, 1000.0)
