from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker import kernel, state
from hmz_mp_worker.backends.codex.oneshot import ExecConversation, ExecReader
from hmz_mp_worker.backends.codex.servers import Servers
from hmz_mp_worker.backends.codex.settings import Settings
from hmz_mp_worker.backends.protocol import (
    Ask,
    Did,
    Event,
    Failed,
    Opened,
    Result,
    Spent,
    Text,
    Usage,
)
from tests.fakes.programs import fake_codex
from tests.helpers import await_until, is_alive, written


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = str(tmp_path / "home")
    return Settings(str(fake_codex(tmp_path)), "gpt-5", effort="high", home=home, stall=20.0)


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    before = kernel.children(os.getpid())
    yield
    assert kernel.children(os.getpid()) == before
    assert not state.process.resources


def run(body: Callable[[], Awaitable[object]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await body()

    asyncio.run(bounded())


async def events(conversation: ExecConversation, prompt: str, schema: str = "") -> list[Event]:
    return [event async for event in conversation.turn(Ask(prompt, schema))]


async def answer(conversation: ExecConversation, prompt: str, schema: str = "") -> str:
    end = (await events(conversation, prompt, schema))[-1]
    assert isinstance(end, Result), end
    return end.answer


async def failure(conversation: ExecConversation, prompt: str) -> Failed:
    end = (await events(conversation, prompt))[-1]
    assert isinstance(end, Failed), end
    return end


def test_a_turn_is_a_stream_with_one_end(settings: Settings, tmp_path: Path) -> None:
    async def body() -> None:
        heard = await events(ExecConversation(settings, str(tmp_path)), "tool ls  -l")
        assert [type(event) for event in heard] == [Opened, Did, Text, Spent, Result]
        assert heard[1] == Did("command ls -l")
        assert heard[-1] == Result("used a tool")

    run(body)


def test_a_conversation_goes_on_and_its_usage_is_the_difference(
    settings: Settings, tmp_path: Path
) -> None:
    async def body() -> None:
        one = ExecConversation(settings, str(tmp_path), "kept")
        await answer(one, "say first")
        heard = await events(one, "history")
        assert heard[-1] == Result('["say first", "history"]')
        assert [e.usage for e in heard if isinstance(e, Spent)] == [(Usage("gpt-5", 100, 10),)]

    run(body)


def test_how_it_is_started(settings: Settings, tmp_path: Path) -> None:
    async def body() -> None:
        one = ExecConversation(settings, str(tmp_path))
        words = json.loads(await answer(one, "args"))
        assert words[:2] == ["exec", "--json"]
        assert words[-1] == "-"
        assert 'sandbox_mode="workspace-write"' in words
        assert 'model_reasoning_effort="high"' in words
        assert await answer(one, "schema", '{"type": "object"}') == '{"type": "object"}'
        resumed = json.loads(await answer(one, "args"))
        assert resumed[:2] == ["exec", "resume"]

    run(body)


@pytest.mark.parametrize(
    ("prompt", "kind", "status", "says"),
    [
        ("deny outside of it", "denied", 0, "patch rejected: outside of it"),
        ("error unexpected status 401 Unauthorized: who", "unauthorised", None, "status 401"),
        ("error exceeded retry limit, last status: 429 Too", "limited", None, "429"),
        ("error no answer", "overloaded", None, "no answer"),
        (
            "error Codex ran out of room in the model's context window.",
            "too_long",
            None,
            "out of room",
        ),
        ("exit out of luck", "died", 1, "ended with status 1 before the turn's end: out of luck"),
        ("status 3", "died", 3, "answered and exited with status 3"),
    ],
)
def test_failures(
    settings: Settings, tmp_path: Path, prompt: str, kind: str, status: int | None, says: str
) -> None:
    async def body() -> None:
        failed = await failure(ExecConversation(settings, str(tmp_path)), prompt)
        assert (failed.kind, failed.status) == (kind, status)
        assert says in failed.reason

    run(body)


def test_silence_and_garbage_and_no_program(settings: Settings, tmp_path: Path) -> None:
    import msgspec

    async def body() -> None:
        silent = msgspec.structs.replace(settings, stall=0.4)
        assert (await failure(ExecConversation(silent, str(tmp_path)), "stall")).kind == "stalled"
        assert await answer(ExecConversation(settings, str(tmp_path)), "garbage fine") == "fine"
        none = msgspec.structs.replace(settings, program="/no/such/codex")
        failed = await failure(ExecConversation(none, str(tmp_path)), "say x")
        assert "no such program" in failed.reason

    run(body)


def test_cancelling_ends_the_program_and_its_tools(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "pids"

    async def body() -> None:
        turn = asyncio.ensure_future(
            events(ExecConversation(settings, str(tmp_path)), f"child {file}")
        )
        await await_until(lambda: written(file))
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert not any(is_alive(int(pid)) for pid in written(file).split())

    run(body)


def test_what_is_said_meanwhile_is_said_in_a_turn_that_follows(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "pid"

    async def body() -> None:
        one = ExecConversation(settings, str(tmp_path))
        turn = asyncio.ensure_future(answer(one, f"wait {file}"))
        await await_until(lambda: written(file))
        one.interject("history of it")
        Path(f"{file}.go").touch()
        assert json.loads(await turn) == [f"wait {file}", "history of it"]

    run(body)


def test_a_conversation_that_another_worker_had(settings: Settings, tmp_path: Path) -> None:
    async def body() -> None:
        one = ExecConversation(settings, str(tmp_path), "kept", known=True)
        failed = await failure(one, "say x")
        assert failed.kind == "died"
        assert "lost with its worker" in failed.reason
        assert await answer(one, "say on") == "on"

    run(body)


@pytest.mark.parametrize(("how", "has"), [("missing", False), ("", True)])
def test_whether_there_is_an_app_server(
    settings: Settings, how: str, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_START", how)

    async def body() -> None:
        servers = Servers()
        assert await servers.can_serve(settings) is has
        assert await servers.can_serve(settings) is has
        await state.close_resources()

    run(body)


@pytest.mark.parametrize("line", [3, {}, {"type": 3}, {"type": "item.completed", "item": 3}])
def test_odd_lines_mean_nothing(line: Any) -> None:
    assert ExecReader("gpt-5", Usage("gpt-5")).take(line) == []
