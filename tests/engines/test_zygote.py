from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.core.cpus import THREADS, usable_cpus
from hmz_mp.futures import ProcessExecutor

pytestmark = pytest.mark.anyio


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


async def niceness_async() -> int:
    return niceness()


def threads() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in THREADS}


async def threads_of_a_pool_inside(workers: int) -> dict[str, str | None]:
    async with Pool(workers) as pool:
        return await pool.run(threads)  # type: ignore[no-any-return]


async def test_calls_have_a_lower_priority_and_async_ones_have_not() -> None:
    here = niceness()
    async with Pool(1) as pool:
        assert await pool.run(niceness) == min(19, here + 5)
        assert await pool.run(niceness_async) == here


@pytest.mark.parametrize("nice", [0, 19])
async def test_how_much_lower_is_an_option(nice: int) -> None:
    async with Pool(1, nice=nice) as pool:
        assert await pool.run(niceness) == min(19, niceness() + nice)


def test_the_executor_takes_it_too() -> None:
    with ProcessExecutor(1, nice=0) as executor:
        assert executor.submit(niceness).result() == niceness()


@pytest.mark.parametrize(
    ("nice", "error"), [(-1, ValueError), (20, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_a_niceness_that_makes_no_sense_is_refused(nice: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="nice is"):
        Pool(1, nice=nice)


@pytest.fixture
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_unset")
async def test_libraries_in_a_worker_are_told_to_use_its_share_of_the_cpus() -> None:
    async with Pool(1) as pool:
        assert set((await pool.run(threads)).values()) == {str(usable_cpus())}
        inside = await pool.run(threads_of_a_pool_inside, 2 * usable_cpus())
        assert set(inside.values()) == {"1"}


@pytest.mark.usefixtures("_unset")
async def test_unless_the_user_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    async with Pool(2 * usable_cpus(), env={"MKL_NUM_THREADS": "6"}) as pool:
        told = await pool.run(threads)
        assert (told["OMP_NUM_THREADS"], told["MKL_NUM_THREADS"]) == ("7", "6")
        assert told["OPENBLAS_NUM_THREADS"] == "1"
        inside = await pool.run(threads_of_a_pool_inside, 1)
        assert (inside["OMP_NUM_THREADS"], inside["MKL_NUM_THREADS"]) == ("7", "6")


def collector() -> tuple[bool, int]:
    return gc.isenabled(), gc.get_freeze_count()


async def test_what_was_imported_is_out_of_the_collectors_way_and_it_collects() -> None:
    async with Pool(1, preload=["json"]) as pool:
        enabled, frozen = await pool.run(collector)
    assert enabled
    assert frozen > 1000
