"""hmz: an agent of its own, whose turns are a thread each. For Python 3.12 and later.

Its classes are made when it is opened, as hmz is imported then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from hmz_mp_bench.calls import AGENT_SECONDS
from hmz_mp_bench.contenders.base import Contender, Function

__all__ = ["HmzThreads"]

AT_ONCE = 100  # threads; hmz's own default is one for each turn

Turn = Callable[[str], str]


def _agent(turn: Turn) -> Any:
    """Return an agent that answers a prompt by calling ``turn`` with it."""
    base: Any = import_module("hmz.coganchor.agents.base")
    event = import_module("hmz.coganchor.agents.event").Event
    config = import_module("hmz.coganchor.agents.config").AgentConfig

    class Session(base.SessionBase):  # type: ignore[misc]  # known once hmz is imported
        def _stream(self, prompt: str, *, schema: object = None) -> Iterator[Any]:  # noqa: ARG002
            yield event(kind="result", text=turn(prompt))

    class Agent(base.AgentBase):  # type: ignore[misc]  # as above
        def new(self, cwd: str | None = None) -> Any:
            return Session(self, cwd)

    return Agent(config(model="none", effort="none"))


class HmzThreads(Contender):
    """hmz's agents. A call is a turn that makes it."""

    async def open(self) -> None:
        self.echo = _agent(lambda prompt: prompt)
        self.echo("warm up")

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        async def call() -> Any:
            return (await self.gathered(function, [item]))[0]

        return call()

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        answers: list[Any] = [None] * len(items)

        def turn(prompt: str) -> str:
            answers[int(prompt)] = function(items[int(prompt)])
            return prompt

        await _agent(turn).abatch([str(at) for at in range(len(items))], at_once=AT_ONCE)
        return answers

    async def agents_wait(self, prompts: Sequence[str], width: int) -> list[str]:
        def turn(prompt: str) -> str:
            time.sleep(AGENT_SECONDS)
            return prompt

        answers: list[str] = await _agent(turn).abatch(prompts, at_once=width)
        return answers

    async def session_turns(self, count: int) -> list[str]:
        # Its blocking batch is more than twice as quick as its awaitable one.
        prompts = [str(at) for at in range(count)]
        return await asyncio.to_thread(self.echo.batch, prompts, at_once=self.workers)

    def open_sessions(self, count: int) -> Sequence[object]:
        sessions: Sequence[object] = self.echo.batch_new(count)
        return sessions
