"""Executors of clusters, on this one machine: ray and dask. They take seconds to start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from importlib import import_module
from typing import Any

from hmz_mp_bench.contenders.base import Contender, Function

__all__ = ["Dask", "Ray"]


class Ray(Contender):
    """ray: a remote function for each function, one CPU each, killed ones not tried again."""

    async def open(self) -> None:
        self.library: Any = import_module("ray")
        self.library.init(
            num_cpus=self.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        self.remotes: dict[Function, Any] = {}

    async def close(self) -> None:
        self.library.shutdown()

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        remote = self.remotes.get(function)
        if remote is None:
            remote = self.library.remote(max_retries=0)(function)
            self.remotes[function] = remote
        answer: Awaitable[Any] = asyncio.wrap_future(remote.remote(item).future())
        return answer


class Dask(Contender):
    """dask.distributed: a local cluster of one-thread workers; killed calls not tried again."""

    async def open(self) -> None:
        import_module("dask").config.set({"distributed.scheduler.allowed-failures": 0})
        library: Any = import_module("distributed")
        self.cluster = await library.LocalCluster(
            n_workers=self.workers,
            threads_per_worker=1,
            processes=True,
            asynchronous=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        self.client = await library.Client(self.cluster, asynchronous=True)

    async def close(self) -> None:
        await self.client.close()
        await self.cluster.close()

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        future = self.client.submit(function, item, pure=False)

        async def answer() -> Any:
            return await future

        return answer()
