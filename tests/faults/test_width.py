"""Width: what a pool takes by default, and calls that start processes and threads themselves."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hmz_mp import Pool
from hmz_mp.core.cpus import usable_cpus
from hmz_mp.futures import ProcessExecutor
from tests.faults.shipped import double, pid
from tests.helpers import run_script

pytestmark = pytest.mark.anyio


def overlap(folder: str) -> int:
    """Return how many calls were in here at once when this one was."""
    mine = Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}"
    mine.touch()
    time.sleep(0.02)
    count = len(list(Path(folder).iterdir()))
    mine.unlink()
    return count


def run_inner(folder: str) -> tuple[int, int]:
    """Run a pool in this call; return its width, and the most that ran at once anywhere."""

    async def main() -> tuple[int, int]:
        async with Pool() as pool:
            turns = [pool.submit(overlap, folder) for _ in range(6)]
            return pool.width, max(await asyncio.gather(*turns))

    return asyncio.run(main())


async def test_a_pool_inside_a_pool_shares_the_width(tmp_path: Path) -> None:
    cpus = usable_cpus()
    async with Pool() as pool:
        found = await asyncio.gather(*[pool.submit(run_inner, str(tmp_path)) for _ in range(3)])
    assert all(width == max(1, cpus // pool.width) for width, _ in found)
    assert max(most for _, most in found) <= max(cpus, pool.width)


async def test_a_pool_of_one_gives_all_of_the_width_to_the_pool_inside_it() -> None:
    def width() -> int:
        return Pool().width

    async with Pool(1) as pool:
        assert await pool.run(width) == usable_cpus()
        assert await pool.run(lambda: Pool(3).width) == 3  # what is asked for is what is taken


async def test_pools_three_deep() -> None:
    def deeper(levels: int) -> int:
        async def main() -> int:
            async with Pool(1) as pool:
                return int(await pool.run(deeper, levels - 1)) + 1

        return asyncio.run(main()) if levels else 0

    async with Pool(1) as pool:
        assert await pool.run(deeper, 2) == 2


async def test_cancelling_a_call_with_a_pool_inside_ends_both(tmp_path: Path) -> None:
    from tests.faults.shipped import say_and_hang
    from tests.helpers import await_until, is_alive, written

    def outer(path: str) -> None:
        async def main() -> None:
            async with Pool(1) as pool:
                await pool.run(say_and_hang, path)

        asyncio.run(main())

    path = tmp_path / "pid"
    async with Pool(1) as pool:
        turn = pool.submit(outer, str(path))
        await await_until(lambda: written(path))
        turn.cancel()
        assert await pool.run(double, 2) == 4
        await await_until(lambda: not is_alive(int(path.read_text())))


async def test_an_executor_inside_a_call() -> None:
    def squares() -> list[int]:
        with ProcessExecutor(1) as executor:
            return list(executor.map(pow, range(4), [2] * 4))

    async with Pool(1) as pool:
        assert await pool.run(squares) == [0, 1, 4, 9]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_multiprocessing_inside_a_call(method: str) -> None:
    def spread(method: str) -> list[int]:
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            return pool.map(double, range(8))

    async with Pool(1) as pool:
        assert await pool.run(spread, method) == [2 * n for n in range(8)]
        assert await pool.run(double, 2) == 4


async def test_a_forked_child_of_multiprocessing_may_print_and_log() -> None:
    def start() -> int:
        def speak() -> None:
            import logging

            print("from the child")
            logging.getLogger().warning("logged by the child")

        process = multiprocessing.get_context("fork").Process(target=speak)
        process.start()
        process.join(10)
        return process.exitcode or 0

    async with Pool(1) as pool:
        turn = pool.submit(start)
        assert await turn == 0
        assert turn.account is not None
        assert "from the child" in turn.account.output
        assert await pool.run(double, 2) == 4


async def test_threads_and_programs_inside_a_call() -> None:
    def many() -> tuple[list[int], str, int]:
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            doubled = list(threads.map(double, range(50)))
        output = subprocess.run(
            [sys.executable, "-S", "-c", "print('hello')"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        results: list[int] = []
        started = [threading.Thread(target=results.append, args=(n,)) for n in range(20)]
        for one in started:
            one.start()
        for one in started:
            one.join()
        return doubled, output, len(results)

    async with Pool(1) as pool:
        assert await pool.run(many) == ([2 * n for n in range(50)], "hello\n", 20)


async def test_an_event_loop_inside_a_call() -> None:
    def loop() -> str:
        async def main() -> str:
            process = await asyncio.create_subprocess_exec(
                "echo", "hello", stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            return output.decode()

        return asyncio.run(main())

    async with Pool(1) as pool:
        worker = await pool.run(pid)
        for _ in range(3):
            assert await pool.run(loop) == "hello\n"
        assert await pool.run(pid) == worker


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_one_cpu_of_many_by_affinity(tmp_path: Path) -> None:
    source = """
import asyncio, os
from hmz_mp import Pool
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

async def main():
    async with Pool() as pool:
        print(pool.width, await pool.run(lambda: len(os.sched_getaffinity(0))))

asyncio.run(main())
"""
    assert run_script(tmp_path, source).stdout == "1 1\n"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": ""}, None),
    ],
)
def test_a_quota_of_a_cgroup(files: dict[str, str], wanted: int | None, tmp_path: Path) -> None:
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    proc.mkdir()
    version_1 = any("cfs" in name for name in files)
    (proc / "cgroup").write_text("3:cpu,cpuacct:/\n" if version_1 else "0::/\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    assert usable_cpus(root, proc) == (wanted or usable_cpus(tmp_path / "none", proc))
