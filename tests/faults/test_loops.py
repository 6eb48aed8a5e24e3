"""Loops that end too early, answers that come too late, and pools used from the wrong place."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.errors import PoolClosed
from hmz_mp_worker import kernel
from tests.faults.shipped import double, say_and_hang, wait_for
from tests.helpers import BOUND, await_until, is_alive, run_script, wait_until, written


async def _begin(path: Path) -> tuple[Pool, Any]:
    pool = Pool(1)
    await pool.__aenter__()
    turn = pool.submit(say_and_hang, str(path))
    await await_until(lambda: written(path))
    return pool, turn


def _all_gone() -> None:
    """Wait until a pool that nobody can leave any more has left nothing behind."""
    gc.collect()

    def reaped() -> bool:
        subprocess._cleanup()  # type: ignore[attr-defined]  # what the next Popen would do
        return not kernel.children(os.getpid())

    wait_until(reaped)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_closed_with_turns_pending_leaves_no_process(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    pool, turn = loop.run_until_complete(_begin(tmp_path / "pid"))
    loop.close()
    assert not turn.done()
    with pytest.raises(RuntimeError):
        pool.submit(double, 1)
    del pool, turn, loop
    gc.collect()
    wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    _all_gone()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_answer_that_lands_after_the_loop_has_gone_harms_nobody(
    backend: str, tmp_path: Path
) -> None:
    kept: list[Any] = []

    async def begin() -> None:
        pool = Pool(1)
        await pool.__aenter__()
        kept.extend([pool, pool.submit(wait_for, str(tmp_path / "go"))])
        await await_until(lambda: written(tmp_path / "go.begun"))

    anyio.run(begin, backend=backend)
    pool, turn = kept
    worker = int(written(tmp_path / "go.begun"))
    (tmp_path / "go").touch()
    answered = time.monotonic() + BOUND
    while is_alive(worker) and psutil.Process(worker).status() != psutil.STATUS_SLEEPING:
        assert time.monotonic() < answered
    assert not turn.done()
    with pytest.raises(RuntimeError):
        pool.submit(double, 1)
    assert turn.cancel()
    del pool, turn
    kept.clear()
    wait_until(lambda: gc.collect() is not None and not is_alive(worker))
    _all_gone()

    async def again() -> int:
        async with Pool(1) as pool:
            return int(await pool.run(double, 2))

    assert anyio.run(again, backend=backend) == 4


UNLEFT = """
import sys, time
from pathlib import Path
import anyio
from hmz_mp import Pool

def hang(path):
    Path(path).touch()
    time.sleep(60)

kept = []

async def begin():
    pool = Pool(1)
    await pool.__aenter__()
    kept.extend([pool, pool.submit(hang, "begun")])
    while not Path("begun").exists():
        await anyio.sleep(0.005)

anyio.run(begin, backend=sys.argv[1])
print("over")
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_script_whose_loop_is_over_with_turns_pending_ends(backend: str, tmp_path: Path) -> None:
    ran = run_script(tmp_path, UNLEFT, backend, timeout=15)
    assert ran.stdout == "over\n"
    assert ran.returncode == 0


def test_an_answer_that_lands_while_the_loop_stands_still_is_taken_when_it_goes_on(
    tmp_path: Path,
) -> None:
    loop = asyncio.new_event_loop()
    pool = Pool(1)
    turns: list[Any] = []

    async def begin() -> None:
        await pool.__aenter__()
        turns.append(pool.submit(wait_for, str(tmp_path / "go")))
        await await_until(lambda: written(tmp_path / "go.begun"))

    loop.run_until_complete(begin())
    (tmp_path / "go").touch()
    worker = int((tmp_path / "go.begun").read_text())
    wait_until(lambda: psutil.Process(worker).status() == psutil.STATUS_SLEEPING)
    assert loop.run_until_complete(turns[0]) == "saw it"
    loop.run_until_complete(pool.__aexit__(None, None, None))
    loop.close()


def test_pools_one_after_the_other_on_loops_of_their_own() -> None:
    async def main() -> int:
        async with Pool(1) as pool:
            return int(await pool.run(double, 2))

    for _ in range(3):
        assert asyncio.run(main()) == 4


def test_pools_on_loops_in_two_threads_at_once() -> None:
    async def main() -> int:
        async with Pool(1) as pool:
            return sum(await asyncio.gather(*[pool.submit(double, n) for n in range(50)]))

    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(asyncio.run(main()))) for _ in range(2)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert answers == [2450, 2450]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_group_that_is_cancelled_around_many_turns(backend: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with Pool(2) as pool:
            async with anyio.create_task_group() as group:
                for n in range(20):
                    group.start_soon(pool.run, say_and_hang, str(tmp_path / str(n)))
                await await_until(lambda: len([*filter(written, tmp_path.iterdir())]) == 2)
                group.cancel_scope.cancel()
            assert await pool.run(double, 2) == 4
            await await_until(lambda: pool.statistics().running == 0)

    anyio.run(main, backend=backend)
    assert not [one for one in tmp_path.iterdir() if is_alive(int(one.read_text()))]


def test_leaving_from_another_loop_or_thread_is_refused() -> None:
    async def main() -> None:
        async with Pool(1) as pool:
            said: list[BaseException] = []

            def use() -> None:
                async def submit() -> None:
                    await pool.run(double, 1)

                try:
                    asyncio.run(submit())
                except RuntimeError as error:
                    said.append(error)

            thread = threading.Thread(target=use)
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
            assert "thread" in str(said[0])
            assert await pool.run(double, 2) == 4
        with pytest.raises(PoolClosed, match="left"):
            pool.submit(double, 1)

    asyncio.run(main())


def test_nothing_is_warned_of_in_an_ordinary_life() -> None:
    async def main() -> None:
        async with Pool(1) as pool:
            await pool.run(double, 2)
            failed: Any = pool.submit(int, "x")
            await asyncio.wait([failed])
            assert failed.exception() is not None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main(), debug=True)
        gc.collect()
