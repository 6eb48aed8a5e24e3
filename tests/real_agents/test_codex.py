"""Codex itself, driven through a pool, against a scripted Responses API."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
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
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import ModelServer, serving
from tests.real_agents.programs import real_program

pytestmark = [
    pytest.mark.agents,
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {file}\n+hello\n*** End Patch\nEOF"
USAGE = {"input": 100, "output": 7, "cache_read": 20}
SCRIPT = {
    "rules": [
        {
            "match": r"^write (?P<file>\S+)",
            "steps": [{"tool": "exec_command", "input": {"cmd": PATCH}}, {"text": "Written."}],
        },
        {
            "match": r"^run (?P<command>.+)",
            "steps": [
                {
                    "tool": "exec_command",
                    "input": {"cmd": "{command}", "yield_time_ms": 30000},
                },
                {"text": "ran"},
            ],
        },
        {
            "match": r"^leave (?P<command>.+)",
            "steps": [
                {"tool": "exec_command", "input": {"cmd": "{command}", "yield_time_ms": 250}},
                {"text": "left"},
            ],
        },
        {"match": "^limited", "steps": [{"status": 429, "times": 99, "retry_after": 20}]},
        {
            "match": "^busy",
            "steps": [{"status": 429, "times": 2, "retry_after": 1}, {"text": "served"}],
        },
        {"match": "^overloaded", "steps": [{"status": 503, "times": 99}]},
        {"match": "^broken", "steps": [{"status": 500, "times": 99}]},
        {"match": "^nobody", "steps": [{"status": 401, "times": 99}]},
        {"match": "^no such model", "steps": [{"status": 404, "times": 99}]},
        {
            "match": "^too long",
            "steps": [
                {
                    "status": 400,
                    "times": 99,
                    "kind": "context_length_exceeded",
                    "message": "Your input exceeds the context window of this model.",
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
        {"match": "^number", "steps": [{"text": '{"n": 3}'}]},
        {"match": "^words only|cannot be used", "steps": [{"text": "three"}]},
        {
            "match": "goal",
            "steps": [
                {"tool": "update_goal", "input": {"status": "complete"}},
                {"text": "The sky is blue."},
            ],
        },
        {"match": "^hello", "steps": [{"text": "Hello.", "usage": USAGE}]},
    ],
    "default": {"steps": [{"text": "scripted", "usage": USAGE}]},
}


class Number(msgspec.Struct):
    n: int


Make = Callable[..., Agent]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving(OpenAI, SCRIPT) as server:
        yield server


@pytest.fixture(scope="module")
def home(server: ModelServer) -> Iterator[Path]:
    """A HOME that is configured for the server; not in /tmp, where Codex would do without parts."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        (Path(folder) / ".codex").mkdir()
        (Path(folder) / ".codex" / "config.toml").write_text(
            'model_provider = "scripted"\n'
            "[model_providers.scripted]\n"
            'name = "scripted"\n'
            f'base_url = "{server.url}/v1"\n'
            'env_key = "SCRIPTED_KEY"\n'
            'wire_api = "responses"\n'
            "[analytics]\n"
            "enabled = false\n"
        )
        yield Path(folder)


@pytest.fixture(scope="module")
async def pool(anyio_backend: str, home: Path) -> AsyncIterator[Pool]:
    """A pool in an environment from which no program reaches anything but the server."""
    before = dict(os.environ)
    os.environ |= {"SCRIPTED_KEY": "none", "HOME": str(home)}
    os.environ.pop("CODEX_HOME", None)
    try:
        async with Pool(1) as pool:
            yield pool
    finally:
        os.environ.clear()
        os.environ |= before


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory of a turn's; the sandbox lets every turn write below /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def records() -> list[TurnRecord]:
    """Of the turns of this test."""
    return []


@pytest.fixture
def make(pool: Pool, records: list[TurnRecord]) -> Make:
    program = real_program("codex")

    def note(event: TurnEvent) -> None:
        if event.kind == "submitted":
            records.append(event.record)

    def make(**settings: Any) -> Agent:
        given = {"program": program, "backoff": "false", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        agent = agent_from_spec(f"cli=codex,model=gpt-5{words}")
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


def sleeping(seconds: int) -> Callable[[], list[int]]:
    """Return what returns the programs that sleep so long."""

    def found() -> list[int]:
        return [
            one.pid
            for one in psutil.process_iter(["cmdline"])
            if one.info["cmdline"] == ["sleep", str(seconds)] and is_alive(one.pid)
        ]

    return found


async def test_a_text_and_what_it_cost(make: Make, records: list[TurnRecord]) -> None:
    agent = make(effort="low")
    assert await agent.aturn("hello there") == "Hello."
    (record,) = records
    assert (record.input_tokens, record.output_tokens) == (100, 7)
    assert json.loads(record.usage)[0]["cached_tokens"] == 20
    assert record.conversation
    assert agent.spent.input_tokens == 100


async def test_an_edit(make: Make, folder: Path) -> None:
    assert await make().aturn("write new.txt", cwd=folder) == "Written."
    assert (folder / "new.txt").read_text() == "hello\n"


async def test_a_conversation_of_three_turns_and_its_usage(
    make: Make, server: ModelServer, records: list[TurnRecord]
) -> None:
    session = make().new()
    for number in range(3):
        assert await session.aturn(f"hello {number}, mine") == "Hello."
    assert [record.input_tokens for record in records] == [100, 100, 100]
    assert len({record.conversation for record in records}) == 1
    said = json.dumps(server.requests[-1]["body"]["input"])
    assert all(f"hello {number}, mine" in said for number in range(3))
    assert "".join([piece async for piece in session.stream("hello stream")]) == "Hello."


async def test_many_directories_in_one_server(
    make: Make, server: ModelServer, records: list[TurnRecord], folder: Path
) -> None:
    agent = make()
    folders = [folder / str(number) for number in range(4)]
    for one in folders:
        one.mkdir()
    async with anyio.create_task_group() as tasks:
        for one in folders:
            tasks.start_soon(partial(agent.aturn, "write new.txt", cwd=one))
    assert all((one / "new.txt").exists() for one in folders)
    worker = records[0].worker
    assert worker is not None
    assert len(psutil.Process(worker).children()) == 1


async def test_turns_that_stand_alone_share_no_history(make: Make, server: ModelServer) -> None:
    agent = make()
    before = len(server.requests)
    assert await agent.abatch([f"hello {n}, alone" for n in range(4)], at_once=2) == ["Hello."] * 4
    for request in server.requests[before:]:
        assert json.dumps(request["body"]["input"]).count(', alone"') == 1


async def test_resuming_after_the_program_was_killed(
    make: Make, server: ModelServer, records: list[TurnRecord]
) -> None:
    session = make().new()
    await session.aturn("hello before")
    worker = records[0].worker
    assert worker is not None
    failures: list[Failed] = []

    async def lose() -> None:
        failures.append(await failure(session.aturn("hang for long")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        await await_until(lambda: server.asked("hang for long"))
        for one in psutil.Process(worker).children():
            os.kill(one.pid, signal.SIGKILL)
    assert (failures[0].kind, failures[0].returncode) == ("died", -signal.SIGKILL)
    assert await session.aturn("hello after") == "Hello."
    assert "hello before" in json.dumps(server.requests[-1]["body"]["input"])
    assert [record.input_tokens for record in records] == [100, 0, 100]


async def test_resuming_after_the_worker_was_killed(
    make: Make, server: ModelServer, records: list[TurnRecord], folder: Path
) -> None:
    session = make().new(folder)
    await session.aturn("hello before")
    failures: list[Failed] = []

    async def lose() -> None:
        failures.append(await failure(session.aturn("run sleep 987")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        await await_until(sleeping(987))
        worker = records[1].worker
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
    await await_until(lambda: not sleeping(987)())
    assert await session.aturn("hello after") == "Hello."
    assert "hello before" in json.dumps(server.requests[-1]["body"]["input"])
    assert records[-1].input_tokens == 100


async def test_schemas(make: Make, server: ModelServer) -> None:
    agent = make()
    assert await agent.aturn("number please", schema=Number) == Number(3)
    wanted = server.requests[-1]["body"]["text"]["format"]
    assert wanted["schema"]["required"] == ["n"]
    before = len(server.requests)
    failed = await failure(agent.aturn("words only", schema=Number))
    assert failed.kind == "schema"
    assert len(server.requests) - before == 3


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("limited", "limited"),
        ("overloaded", "overloaded"),
        ("broken", "overloaded"),
        ("nobody", "unauthorised"),
        ("no such model", "refused"),
    ],
)
async def test_what_the_service_says(
    make: Make, server: ModelServer, prompt: str, kind: str
) -> None:
    began = time.monotonic()
    failed = await failure(make().aturn(prompt))
    assert failed.kind == kind
    assert time.monotonic() - began < 5  # nothing was tried again by the program itself
    assert server.asked(prompt) == 1


async def test_a_busy_service_is_waited_for(
    make: Make, server: ModelServer, records: list[TurnRecord]
) -> None:
    agent = make(backoff="true")
    assert await agent.abatch(["busy now", "hello"]) == ["served", "Hello."]
    assert server.asked("busy now") == 3
    assert [record.attempts for record in records] == [3, 1]


async def test_too_long(make: Make) -> None:
    with pytest.raises(Unrecoverable) as caught:
        await make().aturn("too long", suppress=True)
    assert caught.value.kind == "too_long"


async def test_a_stream_that_is_cut(make: Make) -> None:
    assert await make().aturn("cut it") == "whole after a cut"


async def test_denied(make: Make, folder: Path) -> None:
    failed = await failure(make(permission="read-only").aturn("write new.txt", cwd=folder))
    assert failed.kind == "denied"
    assert "new.txt" in failed.reason
    assert failed.output == "Written."
    assert not (folder / "new.txt").exists()
    outside = await failure(make().aturn("write /var/tmp/outside.txt", cwd=folder))
    assert outside.kind == "denied"


async def test_silence(make: Make) -> None:
    failed = await failure(make(stall=1).aturn("hang, all alone"))
    assert failed.kind == "stalled"


async def test_an_interjection(make: Make, server: ModelServer, folder: Path) -> None:
    session = make().new(folder)
    answers = []

    async def ask() -> None:
        answers.append(await session.aturn("run sleep 2"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await await_until(lambda: server.asked("run sleep 2"))
        session.interject("hello, look at the time")
    assert answers == ["Hello."]
    said = json.dumps(server.requests[-1]["body"]["input"])
    assert said.index("run sleep 2") < said.index("hello, look at the time")


async def test_stopping_ends_what_a_tool_runs_and_no_other_turn(
    make: Make, server: ModelServer, folder: Path
) -> None:
    agent, other = make(), make()
    ended: list[Any] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn("run sleep 988", cwd=folder))
        except Stopped as error:
            ended.append(error)

    answers = []

    async def go_on() -> None:
        answers.append(await other.aturn("run sleep 3", cwd=folder))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go_on)
        tasks.start_soon(ask)
        await await_until(sleeping(988))
        began = time.monotonic()
        agent.stop()
        await await_until(lambda: not sleeping(988)())
        assert time.monotonic() - began < 5
    assert isinstance(ended[0], Stopped)
    assert answers == ["ran"]


async def test_what_a_turn_left_running_ends_with_it(make: Make, folder: Path) -> None:
    assert await make().aturn("leave sleep 986", cwd=folder) == "left"
    await await_until(lambda: not sleeping(986)())


async def test_an_objective(make: Make, server: ModelServer) -> None:
    assert await make().apursue("the sky is blue") == "The sky is blue."
    assert any("the sky is blue" in json.dumps(one["body"]) for one in server.requests)


async def test_a_codex_without_an_app_server(
    make: Make, records: list[TurnRecord], folder: Path
) -> None:
    program = folder / "old-codex"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = app-server ]; then\n'
        "  echo \"error: unrecognized subcommand 'app-server'\" >&2; exit 2\n"
        "fi\n"
        f'exec {real_program("codex")} "$@"\n'
    )
    program.chmod(0o755)
    agent = make(program=program, effort="low")
    session = agent.new(folder)
    assert await session.aturn("hello, once") == "Hello."
    assert await session.aturn("hello, twice") == "Hello."
    assert [record.input_tokens for record in records] == [100, 100]
    assert await agent.aturn("write new.txt", cwd=folder) == "Written."
    assert (folder / "new.txt").exists()
    assert await agent.aturn("number please", schema=Number) == Number(3)
    denied = await failure(agent.aturn("write /var/tmp/outside.txt", cwd=folder))
    assert denied.kind == "denied"
