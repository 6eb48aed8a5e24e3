"""``claude/`` agents through a pool, with a fake program that misbehaves as it is told."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Spent, TurnEvent, Unrecoverable, agent_from_spec
from hmz_mp_worker.backends.protocol import Did, Opened
from tests.agents.conftest import all_gone, failure, pids, running
from tests.fakes.programs import fake_claude
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
    program = fake_claude(tmp_path)

    def make(**settings: Any) -> Agent:
        given = {"home": tmp_path / "home", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli=claude,model=opus:high,program={program}{words}")

    return make


# Turns, batches, sessions ----------------------------------------------------------------------


async def test_a_batch_reuses_programs_and_every_turn_is_a_conversation_of_its_own(
    pool: Pool, make: Make
) -> None:
    agent = make()
    with running(pool) as run:
        programs = await agent.abatch(["pid"] * 12, at_once=2)
        histories = await agent.abatch(["history"] * 4, at_once=2)
    assert len(set(programs)) <= 2
    assert histories == ['["history"]'] * 4
    assert len({record.conversation for record in run.records()}) == 16
    assert agent.spent == Spent(1600, 112, 8.0)


async def test_fresh_programs(pool: Pool, make: Make) -> None:
    agent = make(fresh="true")
    assert len(set(await agent.abatch(["pid"] * 3, at_once=1))) == 3


async def test_directories_have_programs_of_their_own(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent = make()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    assert await agent.aturn("cwd", cwd=here) == str(here)
    assert await agent.aturn("cwd", cwd=there) == str(there)
    assert await agent.aturn("cwd", cwd=here) == str(here)
    assert await agent.aturn("cwd") == os.getcwd()
    missing = await failure(agent.aturn("cwd", cwd=tmp_path / "missing"))
    assert missing.kind == "died"
    assert "missing is not a directory" in missing.reason


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


async def test_turns_that_were_asked_for_before_the_worker_was_killed(
    make: Make, tmp_path: Path
) -> None:
    agent, file = make(), tmp_path / "pids"
    async with Pool(1), anyio.create_task_group() as tasks:
        session = agent.new()
        answers: dict[str, Any] = {}

        async def ask(prompt: str) -> None:
            answers[prompt] = await session.aturn(prompt, suppress=True)

        worker: list[int] = []
        agent.watch(lambda event: worker.append(event.record.worker or 0))
        for prompt in ("say first", f"child {file}", "history"):
            tasks.start_soon(ask, prompt)
            await anyio.lowlevel.checkpoint()
        started = await pids(file)
        os.kill(worker[-1], signal.SIGKILL)
        await await_until(lambda: "history" in answers)
        assert "say first" in answers["history"]
        await all_gone(started)


async def test_objectives(pool: Pool, make: Make) -> None:
    assert await make().apursue("all is well") == "pursued all is well"


async def test_what_an_agent_does_is_to_be_watched(pool: Pool, make: Make) -> None:
    agent = make()
    events: list[TurnEvent] = []
    agent.watch(events.append)
    await agent.aturn("tool ls\x1b[31m")
    said = [event.event for event in events if event.kind == "said"]
    assert isinstance(said[0], Opened)
    assert said[1] == Did("Bash ls\x1b[31m")  # data, whatever is in it: who shows it escapes it


async def test_many_at_once_in_one_worker(make: Make) -> None:
    agent = make()
    async with Pool(2) as pool:
        with running(pool) as run:
            await agent.abatch([f"sleep 0.{n % 3}" for n in range(24)], at_once=8)
        assert len({record.worker for record in run.records()}) == 1
        assert agent.spent.input_tokens == 2400


# Schemas ---------------------------------------------------------------------------------------


async def test_schemas(pool: Pool, make: Make) -> None:
    agent = make()
    assert await agent.aturn('value {"n": 3}', schema=Number) == Number(3)
    assert await agent.aturn('value {"n": "x"} | {} | {"n": 4}', schema=Number) == Number(4)
    failed = await failure(agent.aturn('value {"n": "x"}', schema=Number))
    assert failed.kind == "schema"
    assert "does not fit Number" in failed.reason
    assert failed.output == '{"n":"x"}'.replace(":", ": ")
    assert await agent.aturn("say words", schema=Number, suppress=True) is None


async def test_a_session_may_ask_for_any_type(pool: Pool, make: Make) -> None:
    session = make().new()
    assert await session.aturn("say first") == "first"
    assert await session.aturn('value {"n": 3}', schema=Number) == Number(3)
    assert await session.aturn('value {"value": [1]}', schema=list[int]) == [1]
    assert len(msgspec.json.decode(await session.aturn("history"))) == 4


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind", "returncode"),
    [
        ("deny Edit", "denied", 1),
        ("retry 429 9", "limited", 1),
        ("retry 529", "overloaded", 1),
        ("retry 401", "unauthorised", 1),
        ("error 400 no", "refused", 1),
        ("exit 7 bye", "died", 7),
        ("kill", "died", -9),
    ],
)
async def test_failures_say_of_what_sort_they_are(
    pool: Pool, make: Make, prompt: str, kind: str, returncode: int
) -> None:
    agent = make(backoff="false")
    with running(pool) as run:
        failed = await failure(agent.aturn(prompt))
    assert (failed.kind, failed.returncode) == (kind, returncode)
    assert failed.retry_after == (9.0 if kind == "limited" else None)
    (record,) = run.records()
    assert (record.state, record.failure) == ("failed", kind)
    assert record.error == failed.reason
    assert record.error is not None
    assert record.error.startswith(f"{kind}: ")
    assert await agent.aturn(prompt, suppress=True) == ""


async def test_what_was_answered_and_what_was_said_beside_it_are_kept(
    pool: Pool, make: Make
) -> None:
    agent = make()
    denied = await failure(agent.aturn("deny Edit"))
    assert denied.output == "all done"
    with running(pool) as run:
        died = await failure(agent.aturn("exit 3 out of luck"))
    assert died.stderr == "out of luck\n"
    assert run.records()[0].detail == "out of luck\n"


async def test_a_conversation_that_is_too_long_is_never_suppressed(pool: Pool, make: Make) -> None:
    agent = make()
    with pytest.raises(Unrecoverable) as caught:
        await agent.aturn("too-long", suppress=True)
    assert caught.value.kind == "too_long"
    with pytest.raises(Unrecoverable):
        await agent.abatch(["say x", "too-long"], suppress=True)


async def test_silence(pool: Pool, make: Make) -> None:
    failed = await failure(make(stall="0.3").aturn("stall"))
    assert failed.kind == "stalled"


@pytest.mark.parametrize(
    ("prompt", "kind", "attempts"),
    [
        ("deny Edit", "denied", 1),
        ("refuse no", "refused", 1),
        ("error 400 bad", "refused", 1),
        ("error 401 who", "unauthorised", 1),
        ("too-long", "too_long", 1),
        ("exit 3 broken", "died", 2),
        ("stall", "stalled", 2),
    ],
)
async def test_only_what_may_pass_is_tried_again(
    pool: Pool, make: Make, prompt: str, kind: str, attempts: int
) -> None:
    agent = make(retries=1, stall=0.3)
    with running(pool) as run:
        assert (await failure(agent.aturn(prompt))).kind == kind
    assert [record.attempts for record in run.records()] == [attempts]


async def test_a_schema_is_asked_for_again_in_the_conversation_alone(
    pool: Pool, make: Make
) -> None:
    agent = make(retries=3)
    with running(pool) as run:
        failed = await failure(agent.aturn('value {"n": "x"}', schema=Number))
    assert failed.kind == "schema"
    assert [record.attempts for record in run.records()] == [1]


async def test_usage_of_all_attempts(pool: Pool, make: Make, tmp_path: Path) -> None:
    agent = make(retries=2, backoff="false")
    with running(pool) as run:
        await failure(agent.aturn(f"busy {tmp_path / 'asked'} 9"))
    (record,) = run.records()
    assert record.attempts == 3
    assert record.input_tokens == 300
    assert agent.spent.input_tokens == 300


# Interjecting ----------------------------------------------------------------------------------


# Stopping --------------------------------------------------------------------------------------

linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")


async def test_a_timeout_ends_them_too(pool: Pool, make: Make, tmp_path: Path) -> None:
    failed = await failure(make(timeout=1).aturn(f"child {tmp_path / 'pids'}"))
    assert failed.returncode == 124
    await all_gone(await pids(tmp_path / "pids"))


@pytest.mark.slow
async def test_stubborn_programs_end_in_bounded_time(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent = make(env="FAKE_STUBBORN=1", timeout=1)
    await failure(agent.aturn(f"child {tmp_path / 'pids'}"))
    await all_gone(await pids(tmp_path / "pids"))


@linux
async def test_what_a_turn_left_running_ends_with_its_program(
    pool: Pool, make: Make, tmp_path: Path
) -> None:
    agent = make(fresh="true")
    await agent.aturn(f"orphan {tmp_path / 'orphans'}")
    started = await pids(tmp_path / "orphans")
    assert len(started) == 2
    assert not any(is_alive(pid) for pid in started)


async def test_the_program_of_a_session_that_is_forgotten_ends_with_the_next_submission(
    pool: Pool, make: Make
) -> None:
    agent = make()
    program = int(await agent.new().aturn("pid"))
    del agent
    gc.collect()
    await pool.run(len, "")
    await all_gone([program])


async def test_two_hundred_conversations_take_little_longer_than_one(tmp_path: Path) -> None:
    """A program that costs next to nothing to start, so that it is our own time that shows."""
    program = tmp_path / "waits"
    program.write_text(
        "#!/bin/sh\n"
        "while read -r line; do\n"
        "  sleep 1\n"
        '  echo \'{"type":"result","is_error":false,"result":"ok"}\'\n'
        "done\n"
    )
    program.chmod(0o755)
    agent = agent_from_spec(f"cli=claude,model=opus,program={program}")
    async with Pool() as pool:
        assert await agent.new().aturn("first") == "ok"
        began, spent = time.monotonic(), time.process_time()
        with running(pool) as run:
            assert await agent.abatch(["go"] * 200, at_once=200) == ["ok"] * 200
        assert len({record.worker for record in run.records()}) <= (os.cpu_count() or 1)
        assert time.process_time() - spent < 1
        assert time.monotonic() - began < 10  # 1.7 s on two idle cores
