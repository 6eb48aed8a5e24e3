"""What comes with Python: its executors and pools, threads, and no executor at all."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from hmz_mp_bench import calls
from hmz_mp_bench.contenders.base import Contender, Function, FutureContender

__all__ = ["MultiprocessingPool", "ProcessPool", "Serial", "Threads"]


class ProcessPool(FutureContender):
    """`ProcessPoolExecutor` as the interpreter has it by default."""

    def make(self) -> Executor:
        return ProcessPoolExecutor(self.workers)

    async def agents_wait(self, prompts: Sequence[str], width: int) -> list[str]:  # noqa: ARG002
        """Wait in its workers: it has nowhere else."""
        return await self.gathered(calls.wait_blocking, prompts)


class Threads(FutureContender):
    """`ThreadPoolExecutor`: one process, one GIL."""

    def make(self) -> Executor:
        return ThreadPoolExecutor(self.workers)

    async def agents_wait(self, prompts: Sequence[str], width: int) -> list[str]:
        """Wait in threads of their own."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(width) as threads:
            turns = [loop.run_in_executor(threads, calls.wait_blocking, one) for one in prompts]
            return await asyncio.gather(*turns)


class MultiprocessingPool(Contender):
    """`multiprocessing.Pool`; an awaitable is a future that its callback sets."""

    async def open(self) -> None:
        self.pool = multiprocessing.Pool(self.workers)

    async def close(self) -> None:
        self.pool.terminate()
        self.pool.join()

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.pool.apply_async(
            function,
            (item,),
            callback=lambda value: loop.call_soon_threadsafe(future.set_result, value),
            error_callback=lambda error: loop.call_soon_threadsafe(future.set_exception, error),
        )
        return future

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        answers: Iterator[Any] = self.pool.imap(function, items, chunksize=1000)
        return answers


class Serial(Contender):
    """A plain loop in this process: the floor of everything that is worth an executor."""

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        async def call() -> Any:
            return function(item)

        return call()

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        return [function(item) for item in items]

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        return map(function, items)
