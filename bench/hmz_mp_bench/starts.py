"""``python -m hmz_mp_bench.starts NAME WORKERS BEGAN OUT``: from nothing to the first answers.

Each contender as the shortest script that has every worker answer once, in a process of its own,
since the time that it takes to import is what is measured; so nothing is imported here that the
script would not. BEGAN is when this process was started, by `time.perf_counter`, which counts from
the same moment in all processes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hmz_mp_bench.calls import meet

__all__ = ["STARTS"]

Place = tuple[str, int]  # where the workers meet, and how many they are
Done = Callable[[list[int]], object]


def hmz_mp(place: Place, done: Done) -> None:
    """Our pool on asyncio."""
    import asyncio

    from hmz_mp import Pool

    async def main() -> None:
        async with Pool(place[1]) as pool:
            done(await asyncio.gather(*[pool.submit(meet, place) for _ in range(place[1])]))

    asyncio.run(main())


def hmz_mp_trio(place: Place, done: Done) -> None:
    """Our pool on trio."""
    import trio

    from hmz_mp import Pool

    async def main() -> None:
        async with Pool(place[1]) as pool:
            turns = [pool.submit(meet, place) for _ in range(place[1])]
            done([await turn for turn in turns])

    trio.run(main)


def hmz_mp_executor(place: Place, done: Done) -> None:
    """Our executor."""
    from hmz_mp.futures import ProcessExecutor

    _executor(ProcessExecutor(place[1]), place, done)


def process_pool(place: Place, done: Done) -> None:
    """The library's executor, forking this process."""
    from concurrent.futures import ProcessPoolExecutor

    _executor(ProcessPoolExecutor(place[1]), place, done)


def process_pool_forkserver(place: Place, done: Done) -> None:
    """The library's executor, forking a clean process."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("forkserver")
    _executor(ProcessPoolExecutor(place[1], mp_context=context), place, done)


def _executor(executor: Any, place: Place, done: Done) -> None:
    with executor:
        futures = [executor.submit(meet, place) for _ in range(place[1])]
        done([future.result() for future in futures])


def multiprocessing_pool(place: Place, done: Done) -> None:
    """The library's pool."""
    import multiprocessing

    with multiprocessing.Pool(place[1]) as pool:
        results = [pool.apply_async(meet, (place,)) for _ in range(place[1])]
        done([result.get() for result in results])


def loky(place: Place, done: Done) -> None:
    """loky."""
    _executor(import_module("loky").ProcessPoolExecutor(place[1]), place, done)


def joblib(place: Place, done: Done) -> None:
    """joblib."""
    library: Any = import_module("joblib")
    call = library.delayed(meet)
    done(library.Parallel(n_jobs=place[1])(call(place) for _ in range(place[1])))


def mpire(place: Place, done: Done) -> None:
    """mpire."""
    with import_module("mpire").WorkerPool(n_jobs=place[1]) as pool:
        results = [pool.apply_async(meet, args=(place,)) for _ in range(place[1])]
        done([result.get() for result in results])


def pebble(place: Place, done: Done) -> None:
    """pebble."""
    with import_module("pebble").ProcessPool(max_workers=place[1]) as pool:
        futures = [pool.schedule(meet, args=(place,)) for _ in range(place[1])]
        done([future.result() for future in futures])


def deadpool(place: Place, done: Done) -> None:
    """deadpool."""
    _executor(import_module("deadpool").Deadpool(max_workers=place[1]), place, done)


def anyio(place: Place, done: Done) -> None:
    """anyio."""
    import asyncio

    from anyio import to_process

    async def main() -> None:
        done(await asyncio.gather(*[to_process.run_sync(meet, place) for _ in range(place[1])]))

    asyncio.run(main())


def trio_parallel(place: Place, done: Done) -> None:
    """trio-parallel."""
    import trio

    parallel: Any = import_module("trio_parallel")
    answers: list[int] = []

    async def one() -> None:
        answers.append(await parallel.run_sync(meet, place))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(place[1]):
                nursery.start_soon(one)
        done(answers)

    trio.run(main)


def ray(place: Place, done: Done) -> None:
    """ray."""
    library: Any = import_module("ray")
    library.init(num_cpus=place[1], include_dashboard=False, log_to_driver=False)
    call = library.remote(meet)
    done(library.get([call.remote(place) for _ in range(place[1])]))
    library.shutdown()


def dask(place: Place, done: Done) -> None:
    """dask."""
    library: Any = import_module("distributed")
    with library.Client(
        n_workers=place[1], threads_per_worker=1, dashboard_address=None, set_as_default=False
    ) as client:
        done(client.gather([client.submit(meet, place, pure=False) for _ in range(place[1])]))


STARTS: dict[str, Callable[[Place, Done], None]] = {
    "hmz-mp": hmz_mp,
    "hmz-mp-trio": hmz_mp_trio,
    "hmz-mp-executor": hmz_mp_executor,
    "process-pool": process_pool,
    "process-pool-forkserver": process_pool_forkserver,
    "multiprocessing-pool": multiprocessing_pool,
    "loky": loky,
    "joblib": joblib,
    "mpire": mpire,
    "pebble": pebble,
    "deadpool": deadpool,
    "anyio": anyio,
    "trio-parallel": trio_parallel,
    "ray": ray,
    "dask": dask,
}


def main(name: str, workers: int, began: float, out: str) -> None:
    """Run one; write down when every worker had answered."""
    directory = f"{out}.meeting"  # beside the result, and removed with it
    os.mkdir(directory)

    def done(pids: list[int]) -> None:
        seconds = time.perf_counter() - began
        wrong = "null" if len(set(pids)) == workers else '"one process answered for two"'
        with open(out, "w") as file:
            file.write(f'{{"figures": {{"answers": {seconds!r}}}, "wrong": {wrong}}}')

    STARTS[name]((directory, workers), done)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
