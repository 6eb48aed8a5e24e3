from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hmz_mp_worker.backends.warm import Warm
from tests.helpers import await_until


class Fake:
    def __init__(self) -> None:
        self.alive = True
        self.closed = False

    async def close(self) -> None:
        self.closed = True


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


def test_what_is_put_is_taken_for_the_same_key_the_last_first() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm()
        one, two, other = Fake(), Fake(), Fake()
        warm.put("a", one)
        warm.put("a", two)
        warm.put("b", other)
        assert warm.take("c") is None
        assert warm.take("a") is two
        assert warm.take("a") is one
        assert warm.take("a") is None
        assert warm.take("b") is other
        assert len(warm) == 0

    run(body)


def test_one_that_has_ended_is_not_given() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm()
        dead, alive = Fake(), Fake()
        warm.put("a", alive)
        warm.put("a", dead)
        dead.alive = False
        assert warm.take("a") is alive
        await await_until(lambda: dead.closed)

    run(body)


def test_too_many_and_too_long() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(seconds=0.01, ceiling=2)
        fakes = [Fake() for _ in range(3)]
        for fake in fakes:
            warm.put("a", fake)
        assert len(warm) == 2
        await await_until(lambda: all(fake.closed for fake in fakes))
        assert len(warm) == 0

    run(body)


def test_one_that_is_taken_in_time_is_not_closed() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(seconds=0.01)
        taken, left = Fake(), Fake()
        warm.put("a", taken)
        assert warm.take("a") is taken
        warm.put("a", left)
        await await_until(lambda: left.closed)
        assert not taken.closed

    run(body)
