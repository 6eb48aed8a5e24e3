"""Loops that end too early, answers that come too late, and pools used from the wrong place."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import threading
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
from tests.helpers import await_until, is_alive, run_script, wait_until, written


async def _begin(path: Path) -> tuple[Pool, Any]:
    pool = Pool(1)
    await pool.__aenter__()
    turn = pool.submit(say_and_hang, str(path))
    await await_until(lambda: written(path))
    return pool, turn


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

    def reaped() -> bool:
        subprocess._cleanup()  # type: ignore[attr-defined]  # what the next Popen would do
        return not kernel.children(os.getpid())

    wait_until(reaped)


def test_a_script_whose_loop_is_closed_with_turns_pending_ends(tmp_path: Path) -> None:
    source = """
import asyncio, time
from hmz_mp import Pool

async def begin():
    pool = Pool(1)
    await pool.__aenter__()
    turn = pool.submit(time.sleep, 60)
    await asyncio.sleep(0.3)
    return pool, turn

loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin())
loop.close()
print("closed")
"""
    ran = run_script(tmp_path, source, timeout=15)
    assert ran.stdout == "closed\n"
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
            with anyio.move_on_after(0.5):
                async with anyio.create_task_group() as group:
                    for n in range(20):
                        group.start_soon(pool.run, say_and_hang, str(tmp_path / str(n)))
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
