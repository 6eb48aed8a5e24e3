from __future__ import annotations

import gc
import time
import tracemalloc
from pathlib import Path

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Failed, Stopped, agent_from_spec
from tests.agents.conftest import running, tool
from tests.agents.test_agent import most_at_once
from tests.helpers import await_until

pytestmark = pytest.mark.anyio


async def test_turns_of_a_session_share_its_state(pool: Pool) -> None:
    one, other = tool("count").batch_new(2)
    assert await one.aturn("a") == "a"
    assert await one.aturn("b") == "a b"
    assert await other.aturn("c") == "c"


async def test_turns_of_a_session_are_in_order_whoever_awaits_them(pool: Pool) -> None:
    session = tool("count").new()
    answers: list[str] = []

    async def take(text: str) -> None:
        answers.append(await session.aturn(text))

    with running(pool) as run:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(take, str(number))
    prompts = [record.prompt for record in sorted(run.records(), key=lambda one: one.place)]
    assert answers == [" ".join(prompts[: number + 1]) for number in range(20)]


@pytest.mark.parametrize("name", ["note", "anote"])
async def test_turns_of_a_session_never_overlap(pool: Pool, tmp_path: Path, name: str) -> None:
    session = tool(name).new()
    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(session.aturn, f"{tmp_path}/notes|{number}|0.02")
    assert most_at_once(tmp_path / "notes") == 1


async def test_sessions_do_overlap(pool: Pool, tmp_path: Path) -> None:
    agent = tool("ahold")
    async with anyio.create_task_group() as group:
        for number, session in enumerate(agent.batch_new(200)):
            group.start_soon(session.aturn, f"{tmp_path}|{number}")
        await await_until(lambda: len(list(tmp_path.glob("*.began"))) == 200)
        (tmp_path / "go").touch()


async def test_a_failed_turn_does_not_end_its_session(pool: Pool) -> None:
    session = tool("fail_on_bad").new()
    with pytest.raises(Failed, match="bad is bad"):
        await session.aturn("bad")
    assert await session.aturn("bad", suppress=True) == ""
    assert await session.aturn("good") == "good"


async def test_a_lost_worker_does_not_end_its_session(pool: Pool) -> None:
    session = tool("die").new()
    for _ in range(2):
        with pytest.raises(Failed, match="SIGKILL"):
            await session.aturn("look")


async def test_a_cancelled_turn_lets_the_next_one_run(pool: Pool, tmp_path: Path) -> None:
    session = tool("hold").new()
    async with anyio.create_task_group() as group:
        group.start_soon(session.aturn, f"{tmp_path}|1")
        await await_until((tmp_path / "1.began").exists)
        group.cancel_scope.cancel()
    (tmp_path / "go").touch()
    assert await session.aturn(f"{tmp_path}|2") == "2"


async def test_what_a_session_is(pool: Pool, tmp_path: Path) -> None:
    agent = agent_from_spec("sh/cat", name="reader")
    session = agent.new(tmp_path)
    assert session.id == "reader-1"
    assert session.cwd == str(tmp_path)
    assert repr(session) == "<Session reader-1 0 turns>"
    assert agent.new().cwd is None
    assert agent.opened == 2
    assert [one.id for one in agent.sessions] == ["reader-1", "reader-2"]
    with running(pool) as run:
        await session.aturn("a")
        await session.aturn("b")
    told = [(record.item_id, record.session, record.place) for record in run.records()]
    assert told == [("reader-1", "reader-1", 0), ("reader-1.1", "reader-1", 1)]


async def test_a_session_of_a_stopped_agent(pool: Pool) -> None:
    agent = tool("shout")
    session = agent.new()
    agent.stop()
    with pytest.raises(Stopped):
        await session.aturn("look", suppress=True)


async def test_a_relative_directory_is_the_callers(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tool("where").new("in").cwd == str(tmp_path / "in")


async def test_a_program_cannot_be_spoken_to(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match="sh/cat cannot be told 'wait'"):
        agent_from_spec("sh/cat").new().interject("wait")


async def test_opening_sessions_costs_nothing(pool: Pool) -> None:
    agent = tool("count")
    before = pool.statistics()
    began = time.perf_counter()
    sessions = agent.batch_new(100_000)
    assert time.perf_counter() - began < 5
    assert len({session.id for session in sessions}) == 100_000
    assert pool.statistics().done == before.done
    answers = []
    async with anyio.create_task_group() as group:

        async def take(number: int) -> None:
            answers.append(await sessions[number].aturn(str(number)))

        for number in range(0, 100_000, 1000):
            group.start_soon(take, number)
    assert sorted(map(int, answers)) == list(range(0, 100_000, 1000))


async def test_a_negative_number_of_sessions(pool: Pool) -> None:
    with pytest.raises(ValueError, match="-1 sessions"):
        tool("count").batch_new(-1)


# Streams ---------------------------------------------------------------------------------------


async def test_a_command_is_streamed_as_it_writes(pool: Pool, tmp_path: Path) -> None:
    script = f"printf one; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo two"
    stream = agent_from_spec(f"sh/sh -c '{script}'").new().stream("look")
    assert await anext(stream) == "one"
    (tmp_path / "go").touch()
    assert "".join([piece async for piece in stream]) == "two"


async def test_a_function_is_streamed_whole(pool: Pool) -> None:
    assert [piece async for piece in tool("shout").new().stream("look")] == ["LOOK"]
    assert [piece async for piece in tool("shout").new().stream("")] == []


async def test_a_stream_that_fails(pool: Pool, tmp_path: Path) -> None:
    script = f"printf part; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 3"
    stream = agent_from_spec(f"sh/sh -c '{script}'").new().stream("look")
    assert await anext(stream) == "part"
    (tmp_path / "go").touch()
    with pytest.raises(Failed, match="sh exited with status 3"):
        await anext(stream)


async def test_leaving_a_stream_cancels_its_turn(pool: Pool, tmp_path: Path) -> None:
    script = f"trap 'touch {tmp_path}/ended; exit' TERM; printf one; sleep 1000 & wait"
    stream = agent_from_spec(f'sh/sh -c "{script}"').new().stream("look")
    async for piece in stream:
        assert piece == "one"
        break
    await stream.aclose()
    await await_until((tmp_path / "ended").exists)


async def test_a_session_costs_next_to_nothing_until_its_first_turn(pool: Pool) -> None:
    many = 10_000
    agent = tool("count")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sessions = agent.batch_new(many)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / many < 160
    assert not any(map(gc.is_tracked, sessions))  # the collector does not look at a million
    assert await sessions[-1].aturn("a") == "a"
