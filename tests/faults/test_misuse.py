"""Misuse: one clear error each, at the place of the mistake, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.errors import PoolClosed
from tests.faults.shipped import double

pytestmark = pytest.mark.anyio


def generate(count: int) -> Iterator[int]:
    yield from range(count)


async def generate_later(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


async def later(number: int) -> int:
    return number


class Later:
    async def __call__(self, number: int) -> int:
        return number

    def generate(self) -> Iterator[int]:
        yield 1


async def test_what_is_no_function_is_named() -> None:
    async with Pool(1) as pool:
        wrong: list[tuple[Callable[[], Any], str]] = [
            (lambda: pool.submit(later(1)), "this is a coroutine"),  # type: ignore[arg-type]  # the mistake
            (lambda: pool.submit(double(1)), "this is int"),  # type: ignore[arg-type]  # the mistake
            (lambda: pool.submit(None), "this is NoneType"),  # type: ignore[arg-type]  # the mistake
            (lambda: pool.submit(generate, 3), "is a generator function"),
            (lambda: pool.submit(generate_later, 3), "is a generator function"),
            (lambda: pool.submit(Later().generate), "is a generator function"),
            (lambda: pool.submit(generate(3)), "this is generator"),  # type: ignore[arg-type]  # the mistake
        ]
        for submit, says in wrong:
            with pytest.raises(TypeError, match=says):
                submit()
        assert await pool.run(Later(), 3) == 3
        assert pool.statistics().queued == 0


async def test_calls_with_wrong_arguments_fail_in_their_turn() -> None:
    async with Pool(1) as pool:
        with pytest.raises(TypeError, match="positional argument"):
            await pool.run(double)
        with pytest.raises(TypeError, match="unexpected keyword"):
            await pool.run(double, 1, other=2)


BAD_OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"workers": 0}, ValueError, "workers"),
    ({"workers": -1}, ValueError, "workers"),
    ({"workers": 1.5}, (TypeError, ValueError), "workers"),  # type: ignore[list-item]  # either
    ({"at_once": -1}, ValueError, "at_once"),
    ({"timeout": 0}, ValueError, "timeout"),
    ({"timeout": -1}, ValueError, "timeout"),
    ({"retries": -1}, ValueError, "retries"),
    ({"memory": 0}, ValueError, "memory"),
    ({"turns_per_worker": -2}, ValueError, "turns_per_worker"),
    ({"idle_timeout": 0}, ValueError, "idle_timeout"),
    ({"start_timeout": 0}, ValueError, "start_timeout"),
    ({"engine": "magic"}, ValueError, "engine"),
    ({"threads": 3}, TypeError, "threads"),
]


@pytest.mark.parametrize(("options", "kind", "says"), BAD_OPTIONS)
def test_bad_options_of_a_pool(options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        Pool(**options)


async def test_bad_options_of_calls() -> None:
    async with Pool(1) as pool:
        for options, kind in [
            ({"timeout": -1}, ValueError),
            ({"deadline": 0}, ValueError),
            ({"retries": -1}, ValueError),
            ({"memory": -5}, ValueError),
            ({"at_once": -1}, ValueError),
            ({"prority": 3}, TypeError),
        ]:
            with pytest.raises(kind, match=next(iter(options))):
                pool.options(**options)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(TypeError, match="at least one iterable"):
            pool.map(double)
        with pytest.raises(ValueError, match="at_once"):
            pool.map(double, [1], at_once=-2)
        with pytest.raises(TypeError, match="not iterable"):
            await anext(pool.map(double, 3))


async def test_a_pool_that_was_never_entered_or_was_left() -> None:
    pool = Pool(1)
    with pytest.raises(PoolClosed, match="async with"):
        pool.submit(double, 1)
    with pytest.raises(PoolClosed, match="async with"):
        pool.statistics()
    async with pool:
        session = pool.session()
        narrow = pool.options(at_once=1)
    for use in (pool.submit, session.submit, narrow.submit):
        with pytest.raises(PoolClosed, match="left"):
            use(double, 1)
    with pytest.raises(PoolClosed, match="entered before"):
        await pool.__aenter__()


async def test_a_pool_after_fork() -> None:
    async with Pool(1) as pool:
        assert await pool.run(double, 1) == 2
        child = os.fork()
        if not child:
            try:
                pool.submit(double, 1)
            except PoolClosed as error:
                os._exit(7 if "forked" in str(error) else 8)
            finally:
                os._exit(9)
        _, status = await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert await pool.run(double, 2) == 4


async def test_submitting_while_leaving() -> None:
    """What a callback submits while the pool waits for the rest is still run."""
    landed: list[int] = []

    async with Pool(1) as pool:

        def submit_more(turn: asyncio.Future[int]) -> None:
            landed.append(turn.result())
            if turn.result() < 5:
                pool.submit(max, turn.result() + 1, 0).add_done_callback(submit_more)

        pool.submit(max, 1, 0).add_done_callback(submit_more)
    assert landed == [1, 2, 3, 4, 5]


async def test_callbacks_that_raise_cost_nobody_his_answer() -> None:
    def fail(_: Any) -> None:
        raise ValueError("from a callback")

    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: said.append(context))
    try:
        async with Pool(1) as pool:
            turns = [pool.submit(double, n) for n in range(10)]
            for turn in turns:
                turn.add_done_callback(fail)
            assert await asyncio.gather(*turns) == [2 * n for n in range(10)]
            assert await pool.run(double, 2) == 4
    finally:
        loop.set_exception_handler(handler)
    assert len(said) == 10
