"""This project: its pool on both loops, and its face of `concurrent.futures`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from typing import Any

import anyio

from hmz_mp import Pool
from hmz_mp.agents import agent_from_spec
from hmz_mp.futures import ProcessExecutor
from hmz_mp_bench.contenders.base import Contender, Function, FutureContender

__all__ = ["OurExecutor", "OurPool", "OurPoolOnTrio"]

NO_OP = "tool/hmz_mp_bench.calls:no_op_turn"


class OurPool(Contender):
    """`hmz_mp.Pool` on asyncio."""

    async def open(self) -> None:
        self.pool = await Pool(self.workers).__aenter__()

    async def close(self) -> None:
        await self.pool.__aexit__(None, None, None)

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        return self.pool.submit(function, item)

    def mapped(self, function: Function, items: Iterable[Any]) -> AsyncIterator[Any]:
        return self.pool.map(function, items)

    async def agents_wait(self, prompts: Sequence[str], width: int) -> list[str]:
        agent = agent_from_spec("tool/hmz_mp_bench.calls:wait_half")
        return await agent.abatch(prompts, at_once=width)

    async def session_turns(self, count: int) -> list[str]:
        sessions = agent_from_spec(NO_OP).batch_new(count)
        return await self.all_of([(one.aturn, str(at)) for at, one in enumerate(sessions)])

    async def all_of(self, turns: Sequence[tuple[Function, str]]) -> list[Any]:
        """Await coroutine functions together."""
        return await asyncio.gather(*[function(prompt) for function, prompt in turns])

    def open_sessions(self, count: int) -> Sequence[object]:
        return agent_from_spec(NO_OP).batch_new(count)


class OurPoolOnTrio(OurPool):
    """The same on trio."""

    loop = "trio"

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        turns = [self.submit(function, item) for item in items]
        return [await turn for turn in turns]

    async def all_of(self, turns: Sequence[tuple[Function, str]]) -> list[Any]:
        answers: list[Any] = [None] * len(turns)

        async def one(at: int, function: Function, prompt: str) -> None:
            answers[at] = await function(prompt)

        async with anyio.create_task_group() as group:
            for at, (function, prompt) in enumerate(turns):
                group.start_soon(one, at, function, prompt)
        return answers


class OurExecutor(FutureContender):
    """`hmz_mp.futures.ProcessExecutor`, awaited on asyncio."""

    def make(self) -> ProcessExecutor:
        return ProcessExecutor(self.workers)

    async def repair(self) -> None:
        """Nothing: it replaces its workers."""
