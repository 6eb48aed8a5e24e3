"""The executors that are compared: for each, how to run calls in two workers.

Each face is ``run(fn, args_list, seconds)``: it submits every call at once and returns for each
what it ended in, as a short text: its answer, the name of its exception, or ``no answer``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["MODULES", "NO_ANSWER", "PEERS", "Calls"]

Calls = Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]
WORKERS = 2
NO_ANSWER = "no answer"


def shown(value: object) -> str:
    return repr(value)[:60]


def failed(error: BaseException) -> str:
    return type(error).__name__


def _collect(futures: Sequence[Any], seconds: float) -> list[str]:
    done, _ = concurrent.futures.wait(futures, seconds)
    endings = []
    for future in futures:
        if future not in done:
            endings.append(NO_ANSWER)
        elif future.cancelled():
            endings.append("CancelledError")
        else:
            error = future.exception()
            endings.append(failed(error) if error is not None else shown(future.result()))
    return endings


def _submit_all(executor: Any, calls: Calls, seconds: float) -> list[str]:
    futures: list[Any] = []
    for fn, args in calls:
        try:
            futures.append(executor.submit(fn, *args))
        except Exception as error:  # the pool is broken already
            broken: concurrent.futures.Future[Any] = concurrent.futures.Future()
            broken.set_exception(error)
            futures.append(broken)
    return _collect(futures, seconds)


def process_pool_executor(calls: Calls, seconds: float) -> list[str]:
    return _submit_all(concurrent.futures.ProcessPoolExecutor(WORKERS), calls, seconds)


def _wait(results: Sequence[Any], seconds: float) -> list[str]:
    """Do the same for what `multiprocessing.pool.Pool.apply_async` and its like return."""
    endings = []
    end = time.monotonic() + seconds
    for result in results:
        try:
            endings.append(shown(result.get(max(0.01, end - time.monotonic()))))
        except (multiprocessing.TimeoutError, TimeoutError):
            endings.append(NO_ANSWER)
        except BaseException as error:  # SystemExit among them
            endings.append(failed(error))
    return endings


def multiprocessing_pool(calls: Calls, seconds: float) -> list[str]:
    pool = multiprocessing.Pool(WORKERS)
    return _wait([pool.apply_async(fn, args) for fn, args in calls], seconds)


def loky(calls: Calls, seconds: float) -> list[str]:
    return _submit_all(import_module("loky").ProcessPoolExecutor(WORKERS), calls, seconds)


def mpire(calls: Calls, seconds: float) -> list[str]:
    pool = import_module("mpire").WorkerPool(n_jobs=WORKERS)
    return _wait([pool.apply_async(fn, args=args) for fn, args in calls], seconds)


def pebble(calls: Calls, seconds: float) -> list[str]:
    pool = import_module("pebble").ProcessPool(max_workers=WORKERS)
    return _collect([pool.schedule(fn, args=args) for fn, args in calls], seconds)


def deadpool(calls: Calls, seconds: float) -> list[str]:
    return _submit_all(import_module("deadpool").Deadpool(max_workers=WORKERS), calls, seconds)


def trio_parallel(calls: Calls, seconds: float) -> list[str]:
    import trio

    parallel = import_module("trio_parallel")

    endings = [NO_ANSWER] * len(calls)

    async def one(at: int, fn: Callable[..., Any], args: tuple[Any, ...], limit: Any) -> None:
        try:
            endings[at] = shown(await parallel.run_sync(fn, *args, limiter=limit))
        except Exception as error:
            endings[at] = failed(error)

    async def main() -> None:
        limit = trio.CapacityLimiter(WORKERS)
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for at, (fn, args) in enumerate(calls):
                    nursery.start_soon(one, at, fn, args, limit)

    trio.run(main)
    return endings


def anyio(calls: Calls, seconds: float) -> list[str]:
    import anyio as library
    from anyio import to_process

    endings = [NO_ANSWER] * len(calls)

    async def one(at: int, fn: Callable[..., Any], args: tuple[Any, ...], limit: Any) -> None:
        try:
            endings[at] = shown(await to_process.run_sync(fn, *args, limiter=limit))
        except Exception as error:
            endings[at] = failed(error)

    async def main() -> None:
        limit = library.CapacityLimiter(WORKERS)
        with library.move_on_after(seconds):
            async with library.create_task_group() as group:
                for at, (fn, args) in enumerate(calls):
                    group.start_soon(one, at, fn, args, limit)

    library.run(main)
    return endings


def hmz_mp(calls: Calls, seconds: float) -> list[str]:
    from hmz_mp import Pool

    endings = [NO_ANSWER] * len(calls)

    async def one(at: int, turn: Any) -> None:
        try:
            endings[at] = shown(await turn)
        except Exception as error:
            endings[at] = failed(error)

    async def main() -> None:
        async with Pool(WORKERS) as pool:
            turns = [pool.submit(fn, *args) for fn, args in calls]
            waiting = asyncio.gather(*[one(at, turn) for at, turn in enumerate(turns)])
            try:
                await asyncio.wait_for(waiting, seconds)
            except TimeoutError:
                for turn in turns:
                    turn.cancel()

    asyncio.run(main())
    return endings


PEERS: dict[str, Callable[[Calls, float], list[str]]] = {
    "hmz_mp": hmz_mp,
    "ProcessPoolExecutor": process_pool_executor,
    "multiprocessing.Pool": multiprocessing_pool,
    "loky": loky,
    "mpire": mpire,
    "pebble": pebble,
    "deadpool": deadpool,
    "trio-parallel": trio_parallel,
    "anyio": anyio,
}

# What has to be installed for them, beside what hmz_mp needs.
MODULES = {
    "loky": "loky",
    "mpire": "mpire",
    "pebble": "pebble",
    "deadpool": "deadpool",
    "trio-parallel": "trio_parallel",
}
