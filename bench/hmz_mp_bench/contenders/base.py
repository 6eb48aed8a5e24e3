"""What every contender can be asked. Owns the common parts; knows no executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

__all__ = ["Contender", "Function", "FutureContender"]

Function = Callable[..., Any]


class Contender:
    """One executor of ``workers`` processes, open inside its ``async with``.

    What raises `NotImplementedError` here is what an executor need not have. Which ones have not,
    and why, is said with the workloads that ask for it.
    """

    loop: ClassVar[Literal["asyncio", "trio"]] = "asyncio"

    def __init__(self, workers: int) -> None:
        self.workers = workers

    async def __aenter__(self) -> Contender:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the executor."""

    async def close(self) -> None:
        """End it and its workers."""

    async def repair(self) -> None:
        """Do what a user has to do after a worker died; most often nothing."""

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        """Begin a call; the answer can be awaited."""
        raise NotImplementedError

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        """Begin a call for each item and await them together."""
        return await asyncio.gather(*[self.submit(function, item) for item in items])

    def mapped(
        self, function: Function, items: Iterable[Any]
    ) -> Iterator[Any] | AsyncIterator[Any]:
        """Iterate over the answers in order."""
        raise NotImplementedError

    async def agents_wait(self, prompts: Sequence[str], width: int) -> list[str]:
        """Give each prompt to an agent that waits half a second, so many at once."""
        raise NotImplementedError

    async def session_turns(self, count: int) -> list[str]:
        """Open so many sessions of an agent, give each one turn, return the answers."""
        raise NotImplementedError

    def open_sessions(self, count: int) -> Sequence[object]:
        """Open so many sessions of an agent."""
        raise NotImplementedError

    def command(self, lines: int) -> list[str]:
        """Return what Python is given to work over the files of a directory."""
        raise NotImplementedError

    def check(self, directory: str, count: int, answer: str) -> None:
        """Raise `WrongAnswer` unless it kept that answer for so many files."""


class FutureContender(Contender):
    """One whose executor hands out `concurrent.futures.Future`."""

    executor: Any = None

    def make(self) -> Any:
        """Return a new executor."""
        raise NotImplementedError

    async def open(self) -> None:
        self.executor = self.make()

    async def close(self) -> None:
        self.executor.shutdown()

    async def repair(self) -> None:
        """Make a new one: an executor of this kind is broken for good."""
        self.executor.shutdown(wait=False)
        self.executor = self.make()

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        return asyncio.wrap_future(self.executor.submit(function, item))

    def mapped(
        self, function: Function, items: Iterable[Any]
    ) -> Iterator[Any] | AsyncIterator[Any]:
        answers: Iterator[Any] = self.executor.map(function, items, chunksize=1000)
        return answers
