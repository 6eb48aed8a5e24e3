"""``acp/`` agents through a pool, with a fake program that misbehaves as it is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Spent, Stopped, Unrecoverable, agent_from_spec
from tests.agents.conftest import all_gone, failure, pids, running
from tests.fakes.programs import fake_acp
from tests.helpers import await_until, is_alive

# What depends on the loop is in `test_conversing`.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

Make = Callable[..., Agent]


class Number(msgspec.Struct):
    n: int


@pytest.fixture
def make(tmp_path: Path) -> Make:
    program = fake_acp(tmp_path)

    def make(**settings: Any) -> Agent:
        given = {"home": tmp_path / "home", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli=acp,command={program}{words}")

    return make


async def test_a_batch_runs_in_one_program(pool: Pool, make: Make) -> None:
    agent = make(model="large")
    with running(pool) as run:
        programs = await agent.abatch(["pid"] * 12)
        histories = await agent.abatch(["history"] * 4, at_once=2)
    assert len(set(programs)) == 1
    assert histories == ['["history"]'] * 4
    records = run.records()
    assert len({record.conversation for record in records}) == 16
    assert agent.spent == Spent(1600, 160, 0.0)
    assert msgspec.json.decode(records[0].usage)[0]["model"] == "large"


async def test_directories_need_no_programs_of_their_own(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent = make()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    said = [await agent.aturn("settings", cwd=one) for one in (here, there)]
    assert [msgspec.json.decode(one)["cwd"] for one in said] == [str(here), str(there)]
    assert await agent.aturn("pid", cwd=here) == await agent.aturn("pid", cwd=there)


async def test_a_session_is_one_conversation(pool: Pool, make: Make) -> None:
    one, two = make().batch_new(2)
    assert await one.aturn("say first") == "first"
    assert await two.aturn("history") == '["history"]'
    assert await one.aturn("history") == '["say first", "history"]'
    assert "".join([piece async for piece in one.stream("tool x")]) == "Let me see.\n\nused a tool"


async def test_a_session_goes_on_when_its_worker_was_killed(make: Make, tmp_path: Path) -> None:
    agent, file = make(), tmp_path / "pids"
    async with Pool(1) as pool, anyio.create_task_group() as tasks:
        session = agent.new()
        await session.aturn("say first")
        failures: list[Failed] = []

        async def lose() -> None:
            failures.append(await failure(session.aturn(f"child {file}")))

        with running(pool) as run:
            tasks.start_soon(lose)
            started = await pids(file)
            (record,) = run.records()
            assert record.worker is not None
            os.kill(record.worker, signal.SIGKILL)
            await await_until(lambda: failures)
        await all_gone(started)
        history = await session.aturn("history")
        assert msgspec.json.decode(history) == ["say first", f"child {file}", "history"]


async def test_a_session_whose_name_was_not_known_in_time_says_so(
    make: Make, tmp_path: Path
) -> None:
    session = make().new()
    ended: list[Any] = []
    async with Pool(1) as pool, anyio.create_task_group() as tasks:

        async def ask(prompt: str) -> None:
            try:
                ended.append(await session.aturn(prompt))
            except Failed as error:
                ended.append(error)

        with running(pool) as run:
            tasks.start_soon(ask, f"pause {tmp_path / 'pid'}")
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(ask, "history")  # before anything was heard of the first
            started = await pids(tmp_path / "pid")
            worker = run.records()[0].worker
            assert worker is not None
            os.kill(worker, signal.SIGKILL)
            await await_until(lambda: len(ended) == 2)
        await all_gone(started)
        lost = ended[1]
        assert isinstance(lost, Failed)
        assert (lost.kind, "was lost: nobody knows its name" in lost.reason) == ("died", True)
        assert msgspec.json.decode(await session.aturn("history"))[-1] == "history"


async def test_schemas(pool: Pool, make: Make) -> None:
    agent = make()
    assert await agent.aturn('value {"n": 3}', schema=Number) == Number(3)
    assert await agent.aturn('value three | {} | {"n": 4}', schema=Number) == Number(4)
    assert (await failure(agent.aturn("value three", schema=Number))).kind == "schema"


@pytest.mark.parametrize(
    ("prompt", "kind", "returncode"),
    [
        ("ask execute", "denied", 1),
        ("error 429 slow down", "limited", 1),
        ("error -32000 who are you", "unauthorised", 1),
        ("stop refusal", "refused", 1),
        ("exit 7 bye", "died", 7),
        ("kill", "died", -9),
    ],
)
async def test_failures_say_of_what_sort_they_are(
    pool: Pool, make: Make, prompt: str, kind: str, returncode: int
) -> None:
    failed = await failure(make(backoff="false").aturn(prompt))
    assert (failed.kind, failed.returncode) == (kind, returncode)


async def test_too_long(pool: Pool, make: Make) -> None:
    with pytest.raises(Unrecoverable):
        await make().aturn("error 400 prompt is too long", suppress=True)


async def test_objectives(pool: Pool, make: Make) -> None:
    assert await make().apursue("say reached") == "reached"


async def test_interjecting(pool: Pool, make: Make, tmp_path: Path) -> None:
    session = make().new()
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn(f"pause {tmp_path / 'pid'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await pids(tmp_path / "pid")
        session.interject("history")
        # It is heard once the worker has it, which nothing tells: so the turn waits for a third.
        assert await make().aturn("say x") == "x"
        (tmp_path / "pid.go").touch()
    assert msgspec.json.decode(answers[0])[1:] == ["history"]


async def test_stopping_one_agent_ends_its_tools_and_no_other_turn(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent, other = make(), make()
    ended: list[Any] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn(f"child {tmp_path / 'pids'}"))
        except Stopped as error:
            ended.append(error)

    async def go_on() -> None:
        ended.append(await other.aturn(f"pause {tmp_path / 'other'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        await pids(tmp_path / "other")
        tasks.start_soon(ask)
        _, tool = await pids(tmp_path / "pids")
        agent.stop()
        await all_gone([tool])
        await await_until(lambda: ended)
        (tmp_path / "other.go").touch()
    assert isinstance(ended[0], Stopped)
    assert ended[1] == "went on"


async def test_a_timeout_ends_the_program_of_a_turn_that_was_alone(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    await make().aturn("say x")  # so that the program runs
    turn = make(timeout=2).aturn(f"child {tmp_path / 'pids'}")
    assert (await failure(turn)).returncode == 124
    await all_gone(await pids(tmp_path / "pids"))


async def test_leaving_the_pool_leaves_nothing(make: Make, tmp_path: Path) -> None:
    agent = make()
    async with Pool(1):
        session = agent.new()
        await session.aturn(f"leave {tmp_path / 'pid'}")
        started = await pids(tmp_path / "pid")
        assert all(is_alive(pid) for pid in started)
    assert not any(is_alive(pid) for pid in started)
