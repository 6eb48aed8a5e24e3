"""Executors whose calls are coroutine functions: a task has to be started for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from importlib import import_module
from typing import Any

import anyio
from anyio import to_process

from hmz_mp_bench.contenders.base import Contender, Function

__all__ = ["AnyioProcesses", "TrioParallel"]


class AnyioProcesses(Contender):
    """`anyio.to_process` on asyncio."""

    async def open(self) -> None:
        self.limiter = anyio.CapacityLimiter(self.workers)

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        return to_process.run_sync(function, item, limiter=self.limiter)


class TrioParallel(Contender):
    """trio-parallel, on trio."""

    loop = "trio"

    async def open(self) -> None:
        self.library: Any = import_module("trio_parallel")
        self.limiter = import_module("trio").CapacityLimiter(self.workers)

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        awaitable: Awaitable[Any] = self.library.run_sync(function, item, limiter=self.limiter)
        return awaitable

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        answers: list[Any] = [None] * len(items)

        async def one(at: int, item: Any) -> None:
            answers[at] = await self.submit(function, item)

        async with import_module("trio").open_nursery() as nursery:
            for at, item in enumerate(items):
                nursery.start_soon(one, at, item)
        return answers
