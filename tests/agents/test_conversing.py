"""Agents that converse, on both event loops: the same of `test_claude`, where it may matter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Spent, Stopped, agent_from_spec
from tests.agents.conftest import all_gone, pids, running
from tests.fakes.programs import fake_claude
from tests.helpers import is_alive

pytestmark = pytest.mark.anyio
linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")

Make = Callable[..., Agent]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    program = fake_claude(tmp_path)

    def make(**settings: Any) -> Agent:
        given = {"home": tmp_path / "home", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli=claude,model=opus:high,program={program}{words}")

    return make


async def test_a_turn_and_what_it_cost(pool: Pool, make: Make) -> None:
    agent = make()
    assert agent.waits
    with running(pool) as run:
        assert await agent.aturn("say hello") == "hello"
    (record,) = run.records()
    assert (record.state, record.answer, record.attempts) == ("ok", "hello", 1)
    assert (record.input_tokens, record.output_tokens, record.cost_usd) == (100, 7, 0.5)
    assert msgspec.json.decode(record.usage) == [
        {
            "model": "opus",
            "input_tokens": 100,
            "output_tokens": 7,
            "cached_tokens": 0,
            "cost_usd": 0.5,
        }
    ]
    assert record.conversation
    assert record.failure is None
    assert agent.spent == Spent(100, 7, 0.5)


async def test_a_session_is_one_conversation(pool: Pool, make: Make) -> None:
    one, two = make().batch_new(2)
    assert await one.aturn("say first") == "first"
    assert await two.aturn("history") == '["history"]'
    assert await one.aturn("history") == '["say first", "history"]'
    assert "".join([piece async for piece in one.stream("say abcd")]) == "abcd"


async def test_a_stream_has_what_was_said_before_the_agent_did_something(
    pool: Pool, make: Make
) -> None:
    one = make().new()
    assert await one.aturn("look ls") == "looked"
    assert "".join([piece async for piece in one.stream("look ls")]) == "Let me look.\n\nlooked"


async def test_interjecting(pool: Pool, make: Make, tmp_path: Path) -> None:
    session = make().new()
    with pytest.raises(RuntimeError, match=r"no turn of .* is running"):
        session.interject("hello?")
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn(f"begin {tmp_path / 'pid'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await pids(tmp_path / "pid")
        session.interject("faster [please] \udcff")
    assert answers == ["heard ['faster [please] \\\\udcff']"]
    with pytest.raises(RuntimeError, match=r"no turn of .* is running"):
        session.interject("too late")


async def test_interjecting_from_another_thread(pool: Pool, make: Make, tmp_path: Path) -> None:
    session = make().new()
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn(f"begin {tmp_path / 'pid'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await pids(tmp_path / "pid")
        await anyio.to_thread.run_sync(session.interject, "from a thread")
    assert answers == ["heard ['from a thread']"]


async def test_stopping_the_agent_ends_programs_and_their_tools(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent = make()
    ended = []

    async def ask(file: Path) -> None:
        with pytest.raises(Stopped) as caught:
            await agent.aturn(f"child {file}")
        ended.append(caught.value)

    files = [tmp_path / "one", tmp_path / "two"]
    started = []
    async with anyio.create_task_group() as tasks:
        for file in files:
            tasks.start_soon(ask, file)
        for file in files:
            started += await pids(file)
        agent.stop("enough")
    assert len(ended) == 2
    assert len(started) == 4
    await all_gone(started)


@linux
async def test_leaving_the_pool_leaves_nothing(make: Make, tmp_path: Path) -> None:
    agent = make()
    async with Pool(1):
        orphans = tmp_path / "orphans"
        await agent.aturn(f"orphan {orphans}")
        session = agent.new()
        program = int(await session.aturn("pid"))
        started = [*await pids(orphans), program]
        assert all(is_alive(pid) for pid in started)
    assert not any(is_alive(pid) for pid in started)
