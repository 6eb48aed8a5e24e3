from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp_worker import kernel, state
from hmz_mp_worker.backends.acp.agent import AcpAgent
from hmz_mp_worker.backends.acp.conversation import AcpConversation
from hmz_mp_worker.backends.acp.settings import Settings
from hmz_mp_worker.backends.protocol import Ask, Event, Failed, Result
from hmz_mp_worker.backends.shared import Shared
from tests.fakes.programs import fake_acp

BOUND = 30.0


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    before = kernel.children(os.getpid())
    yield
    assert kernel.children(os.getpid()) == before
    assert not state.process.resources


class Made:
    """Conversations in the programs of one worker; ``FAKE_...`` and others are variables."""

    def __init__(self, folder: Path) -> None:
        self.agents: Shared[AcpAgent] = Shared()
        self.folder = folder
        self.settings = Settings((str(fake_acp(folder)),), home=str(folder / "home"), stall=20.0)

    def changed(self, **changes: Any) -> Settings:
        names = [name for name in changes if name.isupper()]
        variables = tuple((name, str(changes.pop(name))) for name in names)
        environment = (*self.settings.environment, *variables)
        return msgspec.structs.replace(self.settings, environment=environment, **changes)

    def new(
        self,
        *,
        kept: bool = False,
        known_as: str | None = "",
        known: bool = False,
        cwd: Path | None = None,
        **changes: Any,
    ) -> AcpConversation:
        return AcpConversation(
            self.changed(**changes),
            str(cwd or self.folder),
            self.agents,
            kept=kept,
            known_as=known_as,
            known=known,
        )


Run = Callable[[Callable[[Made], Awaitable[object]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a body of a test, with an end that leaves nothing."""

    def run(body: Callable[[Made], Awaitable[object]]) -> None:
        async def bounded() -> None:
            try:
                async with asyncio.timeout(BOUND):
                    await body(Made(tmp_path))
            finally:
                await state.close_resources()

        asyncio.run(bounded())

    return run


async def events(conversation: AcpConversation, ask: Ask | str) -> list[Event]:
    ask = Ask(ask) if isinstance(ask, str) else ask
    return [event async for event in conversation.turn(ask)]


async def answer(conversation: AcpConversation, ask: Ask | str) -> str:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Result), end
    return end.answer


async def failure(conversation: AcpConversation, ask: Ask | str) -> Failed:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Failed), end
    return end
