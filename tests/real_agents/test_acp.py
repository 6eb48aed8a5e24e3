"""Qwen Code and OpenCode themselves, driven over the Agent Client Protocol through a pool.

Against a scripted Messages API. Each is slow to start, so all turns of each are in one program.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Stopped, TurnEvent, Unrecoverable, agent_from_spec
from hmz_mp.core.ambient import TurnRecord
from tests.helpers import await_until, is_alive
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.serving import ModelServer, serving
from tests.real_agents.programs import real_program

pytestmark = [
    pytest.mark.agents,
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

USAGE = {"input": 100, "output": 7, "cache_read": 20}


def using(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "input": given, "usage": USAGE}


COMMAND = {"command": "{command}", "description": "as told", "is_background": False}
SCRIPT = {
    "rules": [
        {
            "match": r"^write (?P<file>\S+)",
            "steps": [
                using("write_file", file_path="{file}", content="hello\n"),
                {"text": "Written.", "usage": USAGE},
            ],
        },
        {
            "match": r"^run (?P<command>.+)",
            "steps": [using("run_shell_command", **COMMAND), {"text": "ran", "usage": USAGE}],
        },
        {  # OpenCode has other tools
            "match": r"^edit (?P<file>\S+)",
            "steps": [
                using("write", filePath="{file}", content="hello\n"),
                {"text": "Written.", "usage": USAGE},
            ],
        },
        {"match": "^bad", "steps": [{"status": 400, "times": 99}]},
        {"match": "^nobody", "steps": [{"status": 401, "times": 99}]},
        {
            "match": "^too long",
            "steps": [{"status": 400, "times": 99, "message": "prompt is too long: 3 > 2"}],
        },
        {"match": "^hang", "steps": [{"hang_s": 30}]},
        {"match": "^number", "steps": [{"text": '{"n": 3}'}]},
        {"match": "^words only|cannot be used", "steps": [{"text": "three"}]},
        {"match": r"^hello (?P<n>\d+)", "steps": [{"text": "Hello {n}.", "usage": USAGE}]},
    ],
    "default": {"steps": [{"text": "scripted", "usage": USAGE}]},
}


class Number(msgspec.Struct):
    n: int


Make = Callable[..., Agent]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving(Anthropic, SCRIPT) as server:
        yield server


@pytest.fixture(scope="module")
async def pool(anyio_backend: str, server: ModelServer) -> AsyncIterator[Pool]:
    """A pool in an environment from which no program reaches anything but the server."""
    before = dict(os.environ)
    options = {"baseURL": f"{server.url}/v1", "apiKey": "none"}
    provider = {"options": options, "models": {"one": {"name": "one"}, "two": {"name": "two"}}}
    opencode = {
        "model": "anthropic/one",
        "small_model": "anthropic/one",
        "enabled_providers": ["anthropic"],
        "provider": {"anthropic": provider},
        "permission": {"bash": "ask"},
    }
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as home:
        os.environ |= {
            "HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "none",
            "OPENCODE_CONFIG_CONTENT": json.dumps(opencode),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
        try:
            async with Pool(1) as pool:
                yield pool
        finally:
            os.environ.clear()
            os.environ |= before


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def records() -> list[TurnRecord]:
    """Of the turns of this test."""
    return []


def made(command: str, records: list[TurnRecord], **settings: Any) -> Agent:
    given = {"backoff": "false", **settings}
    words = "".join(f",{key}={value}" for key, value in given.items())
    agent = agent_from_spec(f"cli=acp,command={command}{words}")

    def note(event: TurnEvent) -> None:
        if event.kind == "submitted":
            records.append(event.record)

    agent.watch(note)
    return agent


@pytest.fixture
def make(pool: Pool, records: list[TurnRecord]) -> Make:
    """Return what makes agents that are Qwen Code."""
    program = real_program("qwen")

    def make(**settings: Any) -> Agent:
        arguments = "--acp --auth-type anthropic --model one"
        return made(f"{program} {arguments}", records, **settings)

    return make


async def failure(turn: Any) -> Failed:
    """Return what a turn fails with. Not `pytest.raises`, whose own error ends a loop's tasks."""
    try:
        answer = await turn
    except Failed as error:
        return error
    raise AssertionError(f"it answered {answer!r}")


def messages(server: ModelServer) -> list[str]:
    """Return the conversation of each request."""
    return [json.dumps(one["body"]["messages"]) for one in server.requests]


def sleeping(seconds: int) -> Callable[[], list[int]]:
    """Return what returns the programs that sleep so long."""

    def found() -> list[int]:
        return [
            one.pid
            for one in psutil.process_iter(["cmdline"])
            if one.info["cmdline"] == ["sleep", str(seconds)] and is_alive(one.pid)
        ]

    return found


# Qwen Code -------------------------------------------------------------------------------------


async def test_a_batch_of_ten_and_what_it_cost(make: Make, records: list[TurnRecord]) -> None:
    agent = make()
    answers = await agent.abatch([f"hello {number}" for number in range(10)], at_once=5)
    assert answers == [f"Hello {number}." for number in range(10)]
    assert [(one.input_tokens, one.output_tokens) for one in records] == [(120, 7)] * 10
    assert len({one.conversation for one in records}) == 10
    assert agent.spent.input_tokens == 1200
    worker = records[0].worker
    assert worker is not None
    assert len(psutil.Process(worker).children()) == 1


async def test_a_conversation_of_three_turns(
    make: Make, server: ModelServer, records: list[TurnRecord]
) -> None:
    session = make().new()
    for number in range(3):
        assert await session.aturn(f"hello {number}, mine") == f"Hello {number}."
    (last,) = [one for one in server.requests if one["prompt"] == "hello 2, mine"]
    said = json.dumps(last["body"]["messages"])
    assert all(f"hello {number}, mine" in said for number in range(3))
    assert [one.input_tokens for one in records] == [120, 120, 120]
    assert "".join([piece async for piece in session.stream("hello 4")]) == "Hello 4."


async def test_edits(make: Make, folder: Path, records: list[TurnRecord]) -> None:
    assert await make().aturn(f"write {folder / 'new.txt'}", cwd=folder) == "Written."
    assert (folder / "new.txt").read_text() == "hello\n"
    assert records[0].input_tokens == 240  # of both requests
    other = folder / "other.txt"
    for settings, where in (({"permission": "read-only"}, folder), ({}, Path.cwd())):
        failed = await failure(make(**settings).aturn(f"write {other}", cwd=where))
        assert failed.kind == "denied"
        assert "other.txt" in failed.reason
    assert not other.exists()


async def test_commands(make: Make, folder: Path) -> None:
    failed = await failure(make().aturn("run touch new.txt", cwd=folder))
    assert failed.kind == "denied"
    assert "touch new.txt" in failed.reason
    assert not (folder / "new.txt").exists()
    assert await make(allow="execute").aturn("run touch new.txt", cwd=folder) == "ran"
    assert (folder / "new.txt").exists()


async def test_schemas(make: Make, server: ModelServer) -> None:
    agent = make()
    assert await agent.aturn("number please", schema=Number) == Number(3)
    assert (await failure(agent.aturn("words only", schema=Number))).kind == "schema"
    assert sum("cannot be used" in one["prompt"] for one in server.requests) == 2


async def test_what_the_service_says(make: Make) -> None:
    # On its own a 400 ends with the error as the answer; over the protocol it is one.
    refused = await failure(make().aturn("bad request"))
    assert refused.kind == "refused"
    assert "400" in refused.reason
    assert (await failure(make().aturn("nobody"))).kind == "unauthorised"
    with pytest.raises(Unrecoverable):
        await make().aturn("too long", suppress=True)


async def test_what_cannot_be_set(make: Make) -> None:
    failed = await failure(make(mode="mad").aturn("hello 1"))
    assert failed.kind == "refused"
    assert "it has plan, default" in failed.reason


async def test_a_prompt_is_no_command(make: Make, server: ModelServer) -> None:
    assert await make().aturn("/help me") == "scripted"
    assert server.asked("/help me") == 1


async def test_an_interjection(make: Make, server: ModelServer, folder: Path) -> None:
    session = make(allow="execute").new(folder)
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn("run touch begun && sleep 2"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await await_until((folder / "begun").exists)
        session.interject("hello 5, look at the time")
    assert answers == ["ran"]
    # It is in the message that brings the command's result.
    said = next(one for one in messages(server) if "look at the time" in one)
    assert said.index("tool_result") < said.index("look at the time")


async def test_stopping_ends_what_a_tool_runs_and_no_other_turn(make: Make, folder: Path) -> None:
    agent, other = make(allow="execute"), make(allow="execute")
    ended: list[Any] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn("run touch begun && sleep 988", cwd=folder))
        except Stopped as error:
            ended.append(error)

    answers = []

    async def go_on() -> None:
        answers.append(await other.aturn("run touch other && sleep 3", cwd=folder))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        tasks.start_soon(ask)
        await await_until(lambda: (folder / "other").exists() and sleeping(988)())
        began = time.monotonic()
        agent.stop()
        await await_until(lambda: not sleeping(988)())
        assert time.monotonic() - began < 5
    assert isinstance(ended[0], Stopped)
    assert answers == ["ran"]


async def test_resuming_after_the_worker_was_killed(
    make: Make, server: ModelServer, records: list[TurnRecord], folder: Path
) -> None:
    session = make(allow="execute").new(folder)
    await session.aturn("hello 1, before")
    failures: list[Failed] = []

    async def lose() -> None:
        failures.append(await failure(session.aturn("run touch begun && sleep 987")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        await await_until(sleeping(987))
        worker = records[-1].worker
        assert worker is not None
        programs = psutil.Process(worker).children(recursive=True)
        os.kill(worker, signal.SIGKILL)
    await await_until(lambda: not any(is_alive(one.pid) for one in programs))
    assert not sleeping(987)()
    await session.aturn("hello 2, after")
    said = next(one for one in messages(server) if "hello 2, after" in one)
    assert said.index("hello 1, before") < said.index("sleep 987") < said.index("hello 2, after")


# OpenCode --------------------------------------------------------------------------------------


async def test_opencode(pool: Pool, records: list[TurnRecord], folder: Path) -> None:
    command = f"{real_program('opencode')} acp"
    agent = made(command, records, model="anthropic/two", home=folder / "home")
    answers = await agent.abatch([f"hello {number}" for number in range(10)], at_once=5, cwd=folder)
    assert answers == [f"Hello {number}." for number in range(10)]
    assert [(one.input_tokens, one.output_tokens) for one in records] == [(120, 7)] * 10
    assert json.loads(records[0].usage)[0]["model"] == "anthropic/two"

    assert await agent.aturn("edit new.txt", cwd=folder) == "Written."
    assert (folder / "new.txt").read_text() == "hello\n"
    careful = made(command, records, permission="read-only", home=folder / "home")
    failed = await failure(careful.aturn("edit other.txt", cwd=folder))
    assert (failed.kind, "other.txt" in failed.reason) == ("denied", True)
    assert not (folder / "other.txt").exists()

    assert await agent.aturn("/init it", cwd=folder) == "scripted"
    assert (await failure(agent.aturn("bad request", cwd=folder))).kind == "refused"
    assert (await failure(agent.aturn("nobody", cwd=folder))).kind == "unauthorised"
    silent = made(command, records, stall=1, home=folder / "home")
    assert (await failure(silent.aturn("hang, all alone", cwd=folder))).kind == "stalled"
