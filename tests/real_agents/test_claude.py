"""Claude Code itself, driven through a pool, against a scripted Messages API."""

from __future__ import annotations

import json
import os
import signal
import sys
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

SCRIPT = {
    "rules": [
        {
            "match": r"^edit (?P<file>\S+)",
            "steps": [
                {"text": "I will read it.", "tool": "Read", "input": {"file_path": "{file}"}},
                {
                    "tool": "Edit",
                    "input": {"file_path": "{file}", "old_string": "a, b", "new_string": "a: int"},
                },
                {"text": "Annotated.", "usage": {"input": 1200, "output": 30, "cache_read": 800}},
            ],
        },
        {
            "match": r"^run (?P<command>.+)",
            "steps": [
                {"tool": "Bash", "input": {"command": "{command}", "description": "run it"}},
                {"text": "ran"},
            ],
        },
        {"match": "^limited", "steps": [{"status": 429, "times": 99, "retry_after": 20}]},
        {
            "match": "^busy",
            "steps": [{"status": 429, "times": 2, "retry_after": 1}, {"text": "served"}],
        },
        {"match": "^overloaded", "steps": [{"status": 529, "times": 99}]},
        {"match": "^broken", "steps": [{"status": 500, "times": 99}]},
        {"match": "^nobody", "steps": [{"status": 401, "times": 99}]},
        {"match": "^no such model", "steps": [{"status": 404, "times": 99}]},
        {
            "match": "^too long",
            "steps": [
                {
                    "status": 400,
                    "times": 99,
                    "message": "prompt is too long: 250000 tokens > 200000 maximum",
                }
            ],
        },
        {
            "match": "^cut",
            "steps": [
                {"stream_cut": True, "text": "one two three four five six seven eight nine"},
                {"text": "whole after a cut"},
            ],
        },
        {"match": "^hang", "steps": [{"hang_s": 30}]},
        {
            "match": "^number",
            "steps": [
                {"tool": "StructuredOutput", "input": {"n": "three"}},
                {"tool": "StructuredOutput", "input": {"n": 3}},
                {"text": "given"},
            ],
        },
        {"match": "^words only", "steps": [{"text": "three"}]},
        {"match": "^refuse", "steps": [{"text": "I will not.", "stop_reason": "refusal"}]},
        {"match": "^hello", "steps": [{"text": "Hello.", "usage": {"input": 100, "output": 7}}]},
    ],
    "default": {"steps": [{"text": "scripted", "usage": {"input": 50, "output": 5}}]},
}


class Number(msgspec.Struct):
    n: int


Make = Callable[..., Agent]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving(Anthropic, SCRIPT) as server:
        yield server


@pytest.fixture(scope="module")
async def pool(
    anyio_backend: str, server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pool]:
    """A pool in an environment from which no program reaches anything but the server."""
    before = dict(os.environ)
    os.environ |= {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "HOME": str(tmp_path_factory.mktemp("home")),
    }
    try:
        async with Pool(1) as pool:
            yield pool
    finally:
        os.environ.clear()
        os.environ |= before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text("def add(a, b): ...\n")
    return tmp_path


@pytest.fixture
def records() -> list[TurnRecord]:
    """Of the turns of this test."""
    return []


@pytest.fixture
def make(pool: Pool, records: list[TurnRecord]) -> Make:
    program = real_program("claude")

    def note(event: TurnEvent) -> None:
        if event.kind == "submitted":
            records.append(event.record)

    def make(**settings: Any) -> Agent:
        given = {"backoff": "false", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        agent = agent_from_spec(f"cli=claude,model=claude-sonnet-4-5,program={program}{words}")
        agent.watch(note)
        return agent

    return make


async def failure(turn: Any) -> Failed:
    """Return what a turn fails with. Not `pytest.raises`, whose own error ends a loop's tasks."""
    try:
        answer = await turn
    except Failed as error:
        return error
    raise AssertionError(f"it answered {answer!r}")


def programs_below(pid: int) -> list[int]:
    """Return the programs that a worker has started."""
    return [one.pid for one in psutil.Process(pid).children()]


async def test_a_text_and_what_it_cost(make: Make, records: list[TurnRecord]) -> None:
    agent = make(effort="low")
    assert await agent.aturn("hello there") == "Hello."
    (record,) = records
    assert (record.input_tokens, record.output_tokens) == (100, 7)
    assert record.cost_usd == pytest.approx((100 * 3 + 7 * 15) / 1e6)
    assert record.conversation


async def test_an_edit(make: Make, records: list[TurnRecord], folder: Path) -> None:
    assert await make().aturn(f"edit {folder / 'm.py'}", cwd=folder) == "Annotated."
    assert (folder / "m.py").read_text() == "def add(a: int): ...\n"
    (record,) = records
    assert json.loads(record.usage)[0]["cached_tokens"] == 800


async def test_a_program_that_is_used_again_reads_a_file_again(make: Make, folder: Path) -> None:
    agent, file = make(), folder / "m.py"
    for _ in range(2):
        file.write_text("def add(a, b): ...\n")
        assert await agent.aturn(f"edit {file}", cwd=folder) == "Annotated."
        assert file.read_text() == "def add(a: int): ...\n"


async def test_a_conversation_of_three_turns_and_its_usage(
    make: Make, records: list[TurnRecord], server: ModelServer
) -> None:
    session = make().new()
    for number in range(3):
        assert await session.aturn(f"hello {number}, mine") == "Hello."
    assert [record.input_tokens for record in records] == [100, 100, 100]
    assert len({record.conversation for record in records}) == 1
    messages = server.requests[-1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert "".join([piece async for piece in session.stream("hello stream")]) == "Hello."


async def test_turns_that_stand_alone_share_programs_and_no_history(
    make: Make, records: list[TurnRecord], server: ModelServer
) -> None:
    agent = make()
    before = len(server.requests)
    answers = await agent.abatch([f"hello {number}, alone" for number in range(8)], at_once=2)
    assert answers == ["Hello."] * 8
    records = records
    assert [record.input_tokens for record in records] == [100] * 8
    assert len({record.conversation for record in records}) == 8
    for request in server.requests[before:]:
        assert [message["role"] for message in request["body"]["messages"]] == ["user"]
    assert records[0].worker is not None
    assert len(programs_below(records[0].worker)) <= 6  # two of this agent; some of earlier tests
    assert agent.spent.output_tokens == 56


async def test_a_prompt_that_begins_like_a_command(make: Make) -> None:
    assert await make().aturn("/clear everything") == "scripted"


async def test_resuming_after_the_program_was_killed(
    make: Make, records: list[TurnRecord], server: ModelServer
) -> None:
    session = make().new()
    await session.aturn("hello before")
    worker = records[0].worker
    assert worker is not None
    known = set(programs_below(worker))
    failures: list[Failed] = []

    async def lose() -> None:
        failures.append(await failure(session.aturn("hang for long")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        await await_until(lambda: server.asked("hang for long"))
        for pid in known:
            os.kill(pid, signal.SIGKILL)
    assert failures[0].kind == "died"
    assert failures[0].returncode == -signal.SIGKILL
    assert await session.aturn("hello after") == "Hello."
    texts = json.dumps(server.requests[-1]["body"]["messages"])
    assert "hello before" in texts
    assert [record.input_tokens for record in records] == [100, 0, 100]


async def test_resuming_after_the_worker_was_killed(
    make: Make, records: list[TurnRecord], server: ModelServer, folder: Path
) -> None:
    session = make(**BYPASS).new(folder)
    await session.aturn("hello before")
    failures: list[Failed] = []

    async def lose() -> None:
        failures.append(await failure(session.aturn(f"run {waits(997)}")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        await await_until(waiting(997))
        worker = records[1].worker
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
    await await_until(lambda: not waiting(997)())
    assert await session.aturn("hello after") == "Hello."
    assert "hello before" in json.dumps(server.requests[-1]["body"]["messages"])


BYPASS = {"permission": "bypass", "env": "IS_SANDBOX=1"}  # which root has to say


def waits(number: int) -> str:
    """Return a command that waits for ever and can be told apart; Claude Code refuses sleeps."""
    return f"tail -f /dev/null -s {number}"


def waiting(number: int) -> Callable[[], list[int]]:
    """Return what returns the processes that wait so."""

    def found() -> list[int]:
        return [
            one.pid
            for one in psutil.process_iter(["cmdline"])
            if one.info["cmdline"] == waits(number).split() and is_alive(one.pid)
        ]

    return found


async def test_schemas(make: Make) -> None:
    agent = make()
    assert await agent.aturn("number please", schema=Number) == Number(3)
    failed = await failure(agent.aturn("words only", schema=Number))
    assert failed.kind == "schema"
    session = agent.new()
    assert await session.aturn("hello") == "Hello."
    assert await session.aturn("number please", schema=Number) == Number(3)


@pytest.mark.parametrize(
    ("prompt", "kind", "wait"),
    [
        ("limited", "limited", 20),
        ("overloaded", "overloaded", None),
        ("broken", "overloaded", None),
        ("nobody", "unauthorised", None),
        ("no such model", "refused", None),
        ("refuse this", "refused", None),
    ],
)
async def test_what_the_service_says(
    make: Make, server: ModelServer, prompt: str, kind: str, wait: float | None
) -> None:
    began = time.monotonic()
    failed = await failure(make().aturn(prompt))
    assert failed.kind == kind
    assert time.monotonic() - began < 10  # nothing was tried again by the program itself
    assert server.asked(prompt) <= 2
    if wait is None:
        assert failed.retry_after is None
    else:
        assert failed.retry_after == pytest.approx(wait, rel=0.3)


async def test_a_busy_service_is_waited_for(
    make: Make, server: ModelServer, records: list[TurnRecord]
) -> None:
    agent = make(backoff="true")
    began = time.monotonic()
    assert await agent.abatch(["busy now", "hello"]) == ["served", "Hello."]
    assert time.monotonic() - began > 2  # as long as the service asked for, twice
    assert server.asked("busy now") == 3
    assert [record.attempts for record in records] == [3, 1]


async def test_too_long(make: Make) -> None:
    with pytest.raises(Unrecoverable) as caught:
        await make().aturn("too long", suppress=True)
    assert caught.value.kind == "too_long"
    assert "too long" in caught.value.reason


async def test_a_stream_that_is_cut(make: Make) -> None:
    assert await make().aturn("cut it") == "whole after a cut"


async def test_denied(make: Make, folder: Path) -> None:
    failed = await failure(make(permission="read-only").aturn("run touch x", cwd=folder))
    assert failed.kind == "denied"
    assert "Bash" in failed.reason
    assert failed.output == "ran"
    outside = await failure(make().aturn(f"edit {__file__}", cwd=folder))
    assert outside.kind == "denied"


async def test_silence(make: Make) -> None:
    failed = await failure(make(stall=2).aturn("hang, all alone"))
    assert failed.kind == "stalled"


async def test_an_interjection(make: Make, server: ModelServer, folder: Path) -> None:
    session = make(**BYPASS).new(folder)
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn("run sleep 1.75"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await await_until(lambda: server.asked("run sleep 1.75"))
        session.interject("look at the time")
    assert answers == ["ran"]
    assert "look at the time" in json.dumps(server.requests[-1]["body"]["messages"])


async def test_stopping_ends_what_a_tool_runs(make: Make, folder: Path) -> None:
    agent = make(**BYPASS)
    ended: list[Any] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn(f"run {waits(998)}", cwd=folder))
        except Stopped as error:
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await await_until(waiting(998))
        began = time.monotonic()
        agent.stop()
    await await_until(lambda: not waiting(998)())
    assert time.monotonic() - began < 5
    assert isinstance(ended[0], Stopped)


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes by /proc")
async def test_what_was_sent_into_the_background_ends_with_its_program(
    make: Make, folder: Path
) -> None:
    agent = make(fresh="true", **BYPASS)
    await agent.aturn(f"run setsid -f {waits(996)}", cwd=folder)
    assert not waiting(996)()


async def test_an_objective(make: Make, server: ModelServer) -> None:
    await make().apursue("the sky is blue")
    assert any("the sky is blue" in one["prompt"] for one in server.requests)
