"""``codex/`` agents through a pool, with a fake app server that misbehaves as it is told."""

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
from tests.fakes.programs import fake_codex
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
    program = fake_codex(tmp_path)

    def make(**settings: Any) -> Agent:
        given = {"home": tmp_path / "home", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli=codex,model=gpt-5:high,program={program}{words}")

    return make


async def test_a_batch_runs_in_one_server(pool: Pool, make: Make) -> None:
    agent = make()
    with running(pool) as run:
        programs = await agent.abatch(["pid"] * 12)
        histories = await agent.abatch(["history"] * 4, at_once=2)
    assert len(set(programs)) == 1
    assert histories == ['["history"]'] * 4
    assert len({record.conversation for record in run.records()}) == 16
    assert agent.spent == Spent(1600, 160, 0.0)


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
    assert "".join([piece async for piece in one.stream("say abcd")]) == "abcd"


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


async def test_schemas(pool: Pool, make: Make) -> None:
    agent = make()
    assert await agent.aturn('value {"n": 3}', schema=Number) == Number(3)
    assert await agent.aturn('value three | {} | {"n": 4}', schema=Number) == Number(4)
    assert (await failure(agent.aturn("value three", schema=Number))).kind == "schema"
    settings = await agent.new().aturn("settings", schema=dict[str, Any])
    assert settings["turn"]["outputSchema"]["type"] == "object"


@pytest.mark.parametrize(
    ("prompt", "kind", "returncode"),
    [
        ("deny touch x", "denied", 1),
        ("retry 429 slow down", "limited", 1),
        ("error unauthorized no", "unauthorised", 1),
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
        await make().aturn("error contextWindowExceeded no room", suppress=True)


async def test_objectives(pool: Pool, make: Make) -> None:
    assert await make().apursue("complete it") == "complete"


async def test_interjecting(pool: Pool, make: Make, tmp_path: Path) -> None:
    session = make().new()
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn(f"begin {tmp_path / 'pid'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await pids(tmp_path / "pid")
        session.interject("faster")
    assert answers == ["heard faster"]


async def test_stopping_one_agent_ends_its_tools_and_no_other_turn(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent, other = make(), make()
    session = other.new()
    ended: list[Any] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn(f"child {tmp_path / 'pids'}"))
        except Stopped as error:
            ended.append(error)

    async def go_on() -> None:
        ended.append(await session.aturn(f"begin {tmp_path / 'other'}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        await pids(tmp_path / "other")
        tasks.start_soon(ask)
        _, tool = await pids(tmp_path / "pids")
        agent.stop()
        await all_gone([tool])
        await await_until(lambda: ended)
        session.interject("go on")
    assert isinstance(ended[0], Stopped)
    assert ended[1] == "heard go on"


async def test_leaving_the_pool_leaves_nothing(make: Make, tmp_path: Path) -> None:
    agent = make()
    async with Pool(1):
        session = agent.new()
        await session.aturn(f"leave {tmp_path / 'pid'}")
        started = [*await pids(tmp_path / "pid"), int(await session.aturn("pid"))]
        assert all(is_alive(pid) for pid in started)
    assert not any(is_alive(pid) for pid in started)


async def test_a_codex_without_an_app_server(pool: Pool, make: Make) -> None:
    agent = make(env="FAKE_START=missing")
    assert await agent.abatch(["say one", "say two"]) == ["one", "two"]
    session = agent.new()
    await session.aturn("say first")
    assert await session.aturn("history") == '["say first", "history"]'
    assert agent.spent.input_tokens == 400
