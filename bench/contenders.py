"""The contenders: how each of them runs a workload. One function each, run in a fresh process.

A contender times itself from its first measured call to its last answer, after a warm-up that is
thrown away, and returns seconds and answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

WORKERS = 2


class Timed(NamedTuple):
    """What a contender took, and what it answered."""

    seconds: float
    answers: list[Any]


Function = Callable[[Any], Any]
Submit = Callable[[Function, Any], Awaitable[Any]]


async def _gathered(submit: Submit, function: Function, items: Sequence[Any]) -> Timed:
    await asyncio.gather(*(submit(function, item) for item in items[: 50 * WORKERS]))
    began = time.perf_counter()
    answers = await asyncio.gather(*(submit(function, item) for item in items))
    return Timed(time.perf_counter() - began, list(answers))


async def _one_by_one(submit: Submit, function: Function, items: Sequence[Any]) -> Timed:
    for item in items[:50]:
        await submit(function, item)
    began = time.perf_counter()
    answers = [await submit(function, item) for item in items]
    return Timed(time.perf_counter() - began, answers)


def serial(_how: str, function: Function, items: Sequence[Any]) -> Timed:
    """Run a plain loop in one process: the baseline without any executor."""
    began = time.perf_counter()
    answers = [function(item) for item in items]
    return Timed(time.perf_counter() - began, answers)


def hmz_mp(how: str, function: Function, items: Sequence[Any]) -> Timed:
    """Run this project's pool."""
    from hmz_mp import Pool

    async def main() -> Timed:
        async with Pool(WORKERS) as pool:
            return await _ways[how](pool.submit, function, items)

    return asyncio.run(main())


def hmz_mp_executor(how: str, function: Function, items: Sequence[Any]) -> Timed:
    """Run this project's `concurrent.futures` face."""
    from hmz_mp.futures import ProcessExecutor

    with ProcessExecutor(WORKERS) as executor:
        return _on_executor(executor, how, function, items)


def process_pool(how: str, function: Function, items: Sequence[Any]) -> Timed:
    """Run the standard library's ProcessPoolExecutor."""
    with ProcessPoolExecutor(WORKERS) as executor:
        return _on_executor(executor, how, function, items)


def _on_executor(executor: Any, how: str, function: Function, items: Sequence[Any]) -> Timed:
    async def main() -> Timed:
        loop = asyncio.get_running_loop()
        return await _ways[how](
            lambda function, item: loop.run_in_executor(executor, function, item), function, items
        )

    return asyncio.run(main())


_ways = {"gathered": _gathered, "one by one": _one_by_one}

CONTENDERS: dict[str, Callable[[str, Function, Sequence[Any]], Timed]] = {
    "hmz_mp": hmz_mp,
    "hmz_mp ProcessExecutor": hmz_mp_executor,
    "ProcessPoolExecutor": process_pool,
    "serial loop": serial,
}
