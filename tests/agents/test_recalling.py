"""Turns that were answered in an earlier execution, and answers that wait to be written down."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Prompt, TurnEvent, agent_from_spec
from hmz_mp.core.ambient import TurnRecord
from tests.helpers import await_until

from .conftest import running

pytestmark = pytest.mark.anyio


def before(prompt: str, answer: str, **fields: Any) -> dict[str, TurnRecord]:
    record = TurnRecord(
        item_id="item", agent="tool/x:y", agent_id="a", session="a-1", place=0, prompt=prompt,
        state="ok", answer=answer, **fields,
    )  # fmt: skip
    return {prompt: record}


@pytest.fixture
def agent() -> Agent:
    return agent_from_spec("tool/builtins:str")


async def test_an_answer_of_before_is_had_without_a_turn(pool: Pool, agent: Agent) -> None:
    events: list[TurnEvent] = []
    agent.watch(events.append)
    known = before("go", "of before", input_tokens=3, output_tokens=2, cost_usd=0.5)
    with running(pool, known=known) as run:
        assert await agent.aturn("go") == "of before"
        assert await agent.abatch(["go", "on"]) == ["of before", "on"]
        assert [answer async for answer in agent.amap(["go"])] == ["of before"]
    assert [record.prompt for record in run.records()] == ["on"]
    assert [event.kind for event in events[:2]] == ["submitted", "ended"]
    assert events[0].record is known["go"]
    assert (agent.spent.input_tokens, agent.spent.cost_usd) == (9, 1.5)


async def test_it_is_of_the_type_that_is_asked_for(pool: Pool, agent: Agent) -> None:
    with running(pool, known=before("go", "[1, 2]")):
        assert await agent.aturn("go", schema=list[int]) == [1, 2]
        with pytest.raises(Failed):  # a secret in it was masked
            await agent.aturn("go", schema=int)
        assert await agent.aturn("go", schema=int, suppress=True) is None


async def test_a_session_and_a_stream(pool: Pool, agent: Agent) -> None:
    with running(pool, known=before("go", "of before")) as run:
        session = agent.new()
        assert [piece async for piece in session.stream("go")] == ["of before"]
        assert await session.aturn("on") == "on"
    (record,) = run.records()
    assert (record.place, record.kept_as) == (1, session.id)


async def test_identities_of_turns(pool: Pool, agent: Agent) -> None:
    with running(pool) as run:
        first, second = agent.new(), agent.new()
        for session in (first, second):
            await session.aturn("a")
            await session.aturn("b")
        await agent.aturn("a")
        await agent.aturn(Prompt("a", item_id="i"))
    identities = [record.identity for record in run.records()]
    assert identities[:2] == identities[2:4]
    assert len(set(identities)) == 4
    assert len({one.partition(":")[2] for one in identities}) == 1
    assert [bool(record.kept_as) for record in run.records()] == [True] * 4 + [False] * 2


async def test_nobody_has_an_answer_that_is_not_written_down(pool: Pool, agent: Agent) -> None:
    had: list[str] = []
    held: list[Any] = []

    async def ask(prompt: str) -> None:
        had.append(await agent.aturn(prompt))

    with running(pool, held=held):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "a")
            tasks.start_soon(ask, "b")
            await await_until(lambda: len(held) == 2)
            await anyio.lowlevel.checkpoint()
            assert had == []
            held.pop()()
            await await_until(lambda: len(had) == 1)
            held.pop()()
    assert sorted(had) == ["a", "b"]


async def test_cancelling_waits_until_the_ending_is_written(pool: Pool, agent: Agent) -> None:
    held: list[Any] = []
    left: list[str] = []

    async def ask() -> None:
        try:
            await agent.aturn("a")
        finally:
            left.append("a")

    with running(pool, held=held):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await await_until(lambda: bool(held))
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                assert left == []
                held.pop()()
    assert left == ["a"]
