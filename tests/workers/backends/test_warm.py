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


def obtaining(warm: Warm[Fake], key: str = "a") -> asyncio.Task[Fake | None]:
    return asyncio.get_running_loop().create_task(warm.obtain(key))


async def steps() -> None:
    """Have all done that is due."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_where_some_have_come_back_the_next_is_waited_for() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(patience=60.0)
        assert [await warm.obtain("a") for _ in range(3)] == [None, None, None]  # who knows
        one, two = Fake(), Fake()
        warm.put("a", one)
        assert await warm.obtain("a") is one
        first, second, other = obtaining(warm), obtaining(warm), obtaining(warm, "b")
        await steps()
        assert (first.done(), second.done(), other.result()) == (False, False, None)
        warm.put("a", two)
        await steps()
        assert (first.result(), second.done()) == (two, False)
        for _ in range(3):  # those that are out do not come back
            warm.gone("a")
        assert await second is None

    run(body)


def test_who_has_waited_as_long_as_a_start_takes_starts_one() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(patience=0.01)
        one = Fake()
        await warm.obtain("a")
        warm.put("a", one)
        assert await warm.obtain("a") is one
        assert await warm.obtain("a") is None

    run(body)


def test_what_is_given_to_one_that_is_cancelled_goes_to_the_next() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(patience=60.0)
        one = Fake()
        await warm.obtain("a")
        warm.put("a", one)
        await warm.obtain("a")
        early, cancelled, last = obtaining(warm), obtaining(warm), obtaining(warm)
        await steps()
        early.cancel()
        await steps()
        warm.put("a", one)
        cancelled.cancel()  # in the same step
        assert await last is one
        assert early.cancelled()
        assert cancelled.cancelled()

    run(body)


def test_what_is_known_of_a_key_goes_with_its_last_program() -> None:
    async def body() -> None:
        warm: Warm[Fake] = Warm(seconds=0.01, patience=60.0)
        one, other = Fake(), Fake()
        await warm.obtain("a")
        warm.put("a", one)
        await await_until(lambda: one.closed)
        await warm.obtain("b")
        await warm.obtain("b")
        warm.put("b", other)
        await warm.obtain("b")
        warm.gone("b")
        warm.gone("b")
        assert (warm._came_back, dict(warm._out)) == (set(), {})

    run(body)


def test_the_patience_follows_how_long_starts_take() -> None:
    warm: Warm[Fake] = Warm()
    assert warm.patience == 1.5
    for _ in range(20):
        warm.note_start(4.0)
    assert 5.9 < warm.patience < 6.0
