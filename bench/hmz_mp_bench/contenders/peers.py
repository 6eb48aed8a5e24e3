"""Executors of others that run processes on one machine, each as its documentation has it used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from hmz_mp_bench.contenders.base import Contender, Function, FutureContender

__all__ = ["Deadpool", "Joblib", "Loky", "Mpire", "Pebble"]


class Loky(FutureContender):
    """loky's reusable executor."""

    def make(self) -> Any:
        return import_module("loky").get_reusable_executor(max_workers=self.workers)

    async def repair(self) -> None:
        """Ask for the executor again: a broken one is replaced."""
        self.executor = self.make()


class Deadpool(FutureContender):
    """deadpool-executor; it has no chunks in `map`."""

    def make(self) -> Any:
        return import_module("deadpool").Deadpool(max_workers=self.workers)

    async def repair(self) -> None:
        """Nothing: it replaces its workers."""


class Pebble(FutureContender):
    """pebble's `ProcessPool`."""

    def make(self) -> Any:
        return import_module("pebble").ProcessPool(max_workers=self.workers)

    async def close(self) -> None:
        self.executor.close()
        self.executor.join()

    async def repair(self) -> None:
        """Nothing: it replaces its workers."""

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        return asyncio.wrap_future(self.executor.schedule(function, args=[item]))

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        answers: Iterator[Any] = self.executor.map(function, items, chunksize=1000).result()
        return answers


class Mpire(Contender):
    """mpire's `WorkerPool`; an awaitable is a future that its callback sets."""

    async def open(self) -> None:
        self.pool = import_module("mpire").WorkerPool(n_jobs=self.workers)

    async def close(self) -> None:
        self.pool.terminate()

    async def repair(self) -> None:
        """Make a new one."""
        with contextlib.suppress(Exception):
            self.pool.terminate()
        await self.open()

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.pool.apply_async(
            function,
            args=(item,),
            callback=lambda value: loop.call_soon_threadsafe(future.set_result, value),
            error_callback=lambda error: loop.call_soon_threadsafe(future.set_exception, error),
        )
        return future

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        # A pool that has applied calls one by one calls a mapped function with other arguments.
        self.pool.terminate()
        self.pool = import_module("mpire").WorkerPool(n_jobs=self.workers)
        answers: Iterator[Any] = self.pool.imap(function, items, chunk_size=1000)
        return answers


class Joblib(Contender):
    """joblib's `Parallel` on its default backend, its workers kept between calls.

    It has no call that can be awaited alone: many calls are one batch, in a thread.
    """

    async def open(self) -> None:
        library = import_module("joblib")
        self.delayed = library.delayed
        self.parallel = library.Parallel(n_jobs=self.workers)
        self.stream = library.Parallel(n_jobs=self.workers, return_as="generator", batch_size=1000)
        self.parallel.__enter__()

    async def close(self) -> None:
        self.parallel.__exit__(None, None, None)
        import_module("joblib.externals.loky").get_reusable_executor().shutdown(wait=True)

    async def repair(self) -> None:
        """Begin a new batch of calls."""
        with contextlib.suppress(Exception):
            self.parallel.__exit__(None, None, None)
        self.parallel = import_module("joblib").Parallel(n_jobs=self.workers)
        self.parallel.__enter__()

    async def _one(self, function: Function, item: Any) -> Any:
        return (await self.gathered(function, [item]))[0]

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        return self._one(function, item)

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        call = self.delayed(function)
        answers: list[Any] = await asyncio.to_thread(self.parallel, (call(item) for item in items))
        return answers

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        call = self.delayed(function)
        answers: Iterator[Any] = self.stream(call(item) for item in items)
        return answers
