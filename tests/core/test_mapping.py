from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from hmz_mp import Pool
from hmz_mp.core import mapping
from hmz_mp.core.window import _PACK_MOST, _WINDOW_MOST
from hmz_mp.errors import Unpicklable, WorkerDied
from tests.core import functions
from tests.helpers import await_until, is_alive, written

pytestmark = pytest.mark.anyio
variable: ContextVar[str] = ContextVar("variable", default="nobody's")


async def collect(answers: AsyncIterator[Any]) -> list[Any]:
    return [answer async for answer in answers]


async def acount(count: int) -> AsyncIterator[int]:
    for at in range(count):
        await anyio.lowlevel.checkpoint()
        yield at


class Naturals:
    """An infinite async iterator that is no generator."""

    def __init__(self) -> None:
        self._last = -1

    def __aiter__(self) -> Naturals:
        return self

    async def __anext__(self) -> int:
        self._last += 1
        return self._last


async def test_answers_in_order() -> None:
    async with Pool(2) as pool:
        assert await collect(pool.map(functions.identity, range(3000))) == list(range(3000))


async def test_nothing_to_map() -> None:
    async with Pool(1) as pool:
        assert await collect(pool.map(functions.identity, [])) == []
        assert await collect(pool.map(functions.identity, acount(0))) == []
        assert pool.statistics().workers == []


async def test_no_iterable_at_all() -> None:
    async with Pool(1) as pool:
        with pytest.raises(TypeError, match="at least one iterable"):
            pool.map(functions.identity)


async def test_several_iterables_until_the_shortest_ends() -> None:
    async with Pool(2) as pool:
        assert await collect(pool.map(pow, [2, 3, 4], itertools.count(1))) == [2, 9, 64]
        assert await collect(pool.map(pow, acount(3), [5, 5, 5, 5])) == [0, 1, 32]
        assert await collect(pool.map(pow, [1, 2], Naturals())) == [1, 2]


async def test_async_functions() -> None:
    async with Pool(1) as pool:
        found = await collect(pool.map(functions.identity_async, acount(300)))
        assert found == list(range(300))


async def test_an_infinite_iterable_is_read_a_bounded_window_ahead() -> None:
    async with Pool(2) as pool:
        source = Naturals()
        answers = pool.map(functions.identity, source)
        ahead = 0
        async for answer in answers:
            await pool.run(len, "slow")  # the consumer is slower than the workers
            ahead = max(ahead, source._last - answer)
            if answer == 100:
                break
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert ahead <= 2 * _WINDOW_MOST + _PACK_MOST
        seen = source._last
        await pool.run(len, "later")
        assert source._last == seen


async def test_unordered_answers_come_as_they_land(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        paths = [str(tmp_path / "go"), str(tmp_path)]  # the second is there already
        answers = pool.map(functions.wait_for, paths, ["late", "early"], ordered=False)
        assert await anext(answers) == "early"
        (tmp_path / "go").touch()
        assert await collect(answers) == ["late"]


async def test_unordered_loses_nothing() -> None:
    async with Pool(2) as pool:
        found = await collect(pool.map(functions.identity, range(2000), ordered=False))
        assert sorted(found) == list(range(2000))


@pytest.mark.parametrize("overlap", [functions.overlap, functions.overlap_async])
@pytest.mark.parametrize("at_once", [1, 3])
async def test_at_once_is_what_workers_see(tmp_path: Path, overlap: Any, at_once: int) -> None:
    async with Pool(4) as pool:
        found = await collect(pool.map(overlap, [str(tmp_path)] * 24, at_once=at_once))
        assert len(found) == 24
        assert max(found) <= at_once


async def test_a_width_that_is_none() -> None:
    async with Pool(1) as pool:
        with pytest.raises(ValueError, match="at_once"):
            pool.map(functions.identity, [1], at_once=-1)


async def test_the_first_failure_is_raised_in_its_place() -> None:
    async with Pool(2) as pool:
        answers = pool.map(functions.fail_on, range(50), itertools.repeat(7))
        assert [await anext(answers) for _ in range(7)] == list(range(7))
        with pytest.raises(ValueError, match="not 7"):
            await anext(answers)
        assert await collect(answers) == []
        assert await pool.run(len, "goes on") == 7


async def test_suppressed_failures_leave_none_in_their_place() -> None:
    async with Pool(2) as pool:
        answers = pool.map(functions.fail_on, range(5), itertools.repeat(2), suppress=True)
        assert await collect(answers) == [0, 1, None, 3, 4]


async def test_a_worker_that_dies_fails_its_item_only(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        code = "__import__('os').kill(__import__('os').getpid(), 9)"
        items = ["1", "2", code, "4", "5"] * 8
        found = await collect(pool.map(eval, items, suppress=True))
        assert found == [1, 2, None, 4, 5] * 8
        with pytest.raises(WorkerDied):
            await collect(pool.map(eval, [code]))


async def test_an_item_that_cannot_be_pickled() -> None:
    async with Pool(1) as pool:
        items = [1, Unpicklable, iter([]), open, (one for one in "x"), 2]
        found = await collect(
            pool.map(functions.fail_on, items[:1] + items[4:], [0] * 3, suppress=True)
        )
        assert found == [1, None, 2]


async def test_breaking_off_cancels_what_was_begun(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        paths = [str(tmp_path / str(at)) for at in range(10)]
        answers = pool.map(functions.note_and_hang, paths)
        async with anyio.create_task_group() as group:
            group.start_soon(collect, answers)
            await await_until(lambda: written(tmp_path / "0") and written(tmp_path / "1"))
            group.cancel_scope.cancel()
        pids = [int(written(tmp_path / name)) for name in ("0", "1")]
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
        await await_until(lambda: not any(map(is_alive, pids)))
        assert await pool.run(len, "goes on") == 7
        assert pool.statistics().queued == 0


async def test_an_iterable_that_raises(tmp_path: Path) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("source")

    async with Pool(1) as pool:
        with pytest.raises(KeyError, match="source"):
            await collect(pool.map(functions.identity, broken()))
        assert await pool.run(len, "") == 0


async def test_failures_nobody_looks_at_are_not_complained_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = tmp_path / "go"
    late = f"(__import__('tests.core.functions', fromlist=['x']).wait_for({str(go)!r}), 1 / 0)"
    async with Pool(2) as pool:

        async def fails() -> None:
            with pytest.raises(ZeroDivisionError):
                await collect(pool.map(eval, [late, *["1 / 0"] * 10]))

        async with anyio.create_task_group() as group:
            group.start_soon(fails)
            await await_until(lambda: pool.statistics().failed >= 3)
            go.touch()
        gc.collect()
    assert caplog.text == ""


async def test_map_under_options() -> None:
    async with Pool(1) as pool:
        caller = pool.options(retries=1, name="mapped")
        assert await collect(caller.map(len, ["a", "bb"])) == [1, 2]


async def test_short_calls_travel_in_packs_and_each_item_has_its_own_ending() -> None:
    def odd(value: int) -> Any:
        if value % 1000 == 7:
            raise ValueError(f"no {value}")
        if value % 1000 == 8:
            return Unloadable()
        return value

    async with Pool(2) as pool:
        found = await collect(pool.map(odd, range(5000), suppress=True))
        assert found == [None if value % 1000 in (7, 8) else value for value in range(5000)]
        assert pool.statistics().done < 2500
        answers = pool.map(odd, range(2001, 3000))
        with pytest.raises(ValueError, match="no 2007"):
            await collect(answers)


class Unloadable:
    """Cannot be loaded where it was not made."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise RuntimeError("not here")


async def test_an_item_that_ends_its_worker_fails_alone_though_it_was_in_a_pack() -> None:
    def fatal(value: int) -> int:
        if value == 3333:
            os._exit(5)
        return value

    async with Pool(2) as pool:
        found = await collect(pool.map(fatal, range(5000), suppress=True))
        assert found == [None if value == 3333 else value for value in range(5000)]
        with pytest.raises(WorkerDied, match="status 5"):
            await collect(pool.map(fatal, range(3000, 4000)))


async def test_packs_in_any_order_lose_nothing() -> None:
    async with Pool(2) as pool:
        found = await collect(pool.map(functions.identity, range(20_000), ordered=False))
        assert sorted(found) == list(range(20_000))


async def test_items_that_are_not_plain_travel_alone() -> None:
    async with Pool(1) as pool:
        items = [[at] for at in range(500)]
        assert await collect(pool.map(functions.identity, items)) == items
        assert pool.statistics().done == 500


class Never:
    """An async iterator that has nothing, ever."""

    cancelled = False

    def __aiter__(self) -> Never:
        return self

    async def __anext__(self) -> int:
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True
        return 0


async def abroken() -> AsyncIterator[int]:
    yield 1
    yield 2
    raise KeyError("source")


def broken() -> Iterator[int]:
    yield 1
    yield 2
    raise KeyError("source")


@pytest.mark.parametrize("source", [broken, abroken])
@pytest.mark.parametrize("ordered", [True, False])
async def test_an_iterable_that_raises_does_so_in_its_place(source: Any, ordered: bool) -> None:
    async with Pool(1) as pool:
        answers = pool.map(functions.identity, source(), ordered=ordered)
        assert sorted([await anext(answers), await anext(answers)]) == [1, 2]
        with pytest.raises(KeyError, match="source"):
            await anext(answers)
        assert await pool.run(len, "") == 0


@pytest.mark.parametrize("turn_seconds", [mapping._TURN_SECONDS, -1])
@pytest.mark.parametrize("ordered", [True, False])
async def test_answers_do_not_wait_for_a_slow_source(
    ordered: bool, turn_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each item is asked for only after the answer to the one before it was seen.

    Also where the loop has its turn each time: what happens then is not missed.
    """
    monkeypatch.setattr(mapping, "_TURN_SECONDS", turn_seconds)
    async with Pool(2) as pool:
        seen = anyio.Event()

        async def one_by_one() -> AsyncIterator[int]:
            nonlocal seen
            for at in range(5):
                seen = anyio.Event()
                yield at
                await seen.wait()

        found = []
        with anyio.fail_after(20):
            async for answer in pool.map(functions.identity, one_by_one(), ordered=ordered):
                found.append(answer)
                seen.set()
        assert found == list(range(5))


async def test_breaking_off_while_the_source_is_waited_for() -> None:
    async with Pool(1) as pool:
        source = Never()
        answers = pool.map(functions.identity, source)
        with anyio.move_on_after(0.02) as scope:
            await anext(answers)
        assert scope.cancelled_caught
        assert source.cancelled
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert await pool.run(len, "") == 0


async def test_the_source_sees_the_callers_context() -> None:
    variable.set("the caller's")

    async def read() -> AsyncIterator[str]:
        yield variable.get()

    async with Pool(1) as pool:
        assert await collect(pool.map(functions.identity, read())) == ["the caller's"]


async def test_a_slow_iterable_does_not_hold_back_its_first_answers() -> None:
    """Nor does it keep the loop: it is read for a millisecond, or a few items, at a time."""
    read = 0

    def slowly() -> Iterator[int]:
        nonlocal read
        for at in range(2000):
            read += 1
            if at > 200:  # by now the calls are known to be short
                time.sleep(0.0005)
            yield at

    async with Pool(1) as pool:
        behind = []
        async for answer in pool.map(functions.identity, slowly()):
            behind.append(read - answer)
        assert len(behind) == 2000
        assert min(behind[300:1000]) < 200  # all that is left, 1000 and more, if it held them back


async def test_a_pack_that_turns_out_heavy_is_run_by_all_workers(tmp_path: Path) -> None:
    """Its rest is begun again once an item has taken long; order and each ending stay."""

    def turn_heavy(value: int) -> int:
        if value < 3000:
            return value
        if value % 10 == 3:
            raise ValueError(value)
        (tmp_path / f"{os.getpid()}-{value}").touch()
        time.sleep(0.015)
        return value

    async with Pool(2) as pool:
        found = await collect(pool.map(turn_heavy, range(3060), suppress=True))
        assert found == [None if at >= 3000 and at % 10 == 3 else at for at in range(3060)]
        ran = [one.name.split("-") for one in tmp_path.iterdir()]
        assert len(ran) == 54, "each of them once"
        assert len({pid for pid, _ in ran}) == 2


async def test_items_and_answers_that_are_large_wait_in_small_numbers() -> None:
    mebibyte = 1 << 20
    made = taken = most = 0

    def make() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield bytes(mebibyte)

    async with Pool(2) as pool:
        await collect(pool.map(len, [b""] * 100))
        answers = pool.map(len, make())
        async for length in answers:
            assert length == mebibyte
            taken += 1
            most = max(most, made - taken)
            if taken == 300:
                break
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert most <= 70


@pytest.mark.parametrize("ordered", [True, False])
async def test_breaking_off_closes_an_async_generator(ordered: bool) -> None:
    closed = anyio.Event()

    async def generate() -> AsyncIterator[int]:
        try:
            for at in itertools.count():
                await anyio.lowlevel.checkpoint()
                yield at
        finally:
            closed.set()

    async with Pool(1) as pool:
        answers = pool.map(functions.identity, generate(), ordered=ordered)
        await anext(answers)
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert closed.is_set()
        failing = pool.map(functions.fail_on, generate(), itertools.repeat(0), ordered=ordered)
        closed = anyio.Event()
        with pytest.raises(ValueError, match="not 0"):
            await collect(failing)
        assert closed.is_set()


async def test_a_consumer_that_never_waits_leaves_the_loop_its_turn() -> None:
    async with Pool(1) as pool:
        await collect(pool.map(functions.identity, range(2000)))
        turns = 0
        over = False

        async def count() -> None:
            nonlocal turns
            while not over:
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(count)
            began = time.monotonic()
            async for _ in pool.map(functions.identity, range(100_000)):
                pass
            seconds = time.monotonic() - began
            over = True
        assert turns > seconds / 0.05


async def test_no_item_sees_what_another_of_its_pack_has_changed() -> None:
    def change(value: int) -> tuple[bool, int]:
        seen = "HMZ_MP_PACK" in os.environ, sys.getrecursionlimit()
        os.environ["HMZ_MP_PACK"] = str(value)
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        return seen

    async with Pool(1) as pool:
        assert len(set(await collect(pool.map(change, range(500))))) == 1
        assert pool.statistics().done < 500
