from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, agent_from_spec
from hmz_mp.core.ambient import Item, TurnRecord, run_variable
from hmz_mp.errors import Stopped
from tests.helpers import await_until, is_alive, written


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    """One pool for the tests of a module, around each of them."""
    async with Pool(workers=2) as pool:
        yield pool


def tool(name: str) -> Agent:
    """Make an agent of one of the functions beside this file."""
    return agent_from_spec(f"tool/tests.agents.functions:{name}")


@dataclass
class FakeRun:
    """A run that writes down what it is told, and may refuse."""

    pool: Any
    task: str = "the task"
    id: str = "run"
    directory: Path | None = None
    refusing: bool = False
    known: dict[str, TurnRecord] = field(default_factory=dict)  # by prompt
    held: list[Callable[[], object]] | None = None  # who waits for an ending to be written
    told: list[tuple[str, TurnRecord, Any]] = field(default_factory=list)

    @property
    def observer(self) -> FakeRun:
        return self

    def masked(self, text: str) -> str:
        return text.replace("secret", "***")

    def items(self) -> list[Item]:
        return []

    def submitted(self, record: TurnRecord) -> TurnRecord | None:
        if record.prompt in self.known:
            return self.known[record.prompt]
        record.number = len(self.records())
        if self.refusing:
            raise Stopped("no new turns")
        self.told.append(("submitted", record, record.state))
        return None

    def began(self, record: TurnRecord) -> None:
        self.told.append(("began", record, record.state))

    def said(self, record: TurnRecord, event: Any) -> None:
        self.told.append(("said", record, event))

    def ended(self, record: TurnRecord, then: Callable[[], object]) -> None:
        self.told.append(("ended", record, record.state))
        if self.held is None:
            then()
        else:
            self.held.append(then)

    def records(self) -> list[TurnRecord]:
        return [record for what, record, _ in self.told if what == "submitted"]


async def pids(file: Path) -> list[int]:
    """Return the pids that an agent's program notes in a file."""
    await await_until(lambda: written(file))
    return [int(word) for word in written(file).split()]


async def all_gone(started: list[int]) -> None:
    """Wait for the end of processes."""
    await await_until(lambda: not any(is_alive(pid) for pid in started))


async def failure(turn: Any) -> Failed:
    """Return what a turn fails with."""
    with pytest.raises(Failed) as caught:
        await turn
    return caught.value


@contextmanager
def running(pool: Pool, **settings: Any) -> Iterator[FakeRun]:
    """Put a run around what a test does."""
    fake = FakeRun(pool, **settings)
    token = run_variable.set(fake)
    try:
        yield fake
    finally:
        run_variable.reset(token)
