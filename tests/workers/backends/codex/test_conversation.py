from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp_worker import kernel, state
from hmz_mp_worker.backends import program as program_module
from hmz_mp_worker.backends.codex import conversation as module
from hmz_mp_worker.backends.codex import server as server_module
from hmz_mp_worker.backends.codex.conversation import CodexConversation
from hmz_mp_worker.backends.codex.servers import Servers
from hmz_mp_worker.backends.codex.settings import Permission, Settings
from hmz_mp_worker.backends.protocol import Ask, Did, Event, Failed, Opened, Result, Spent, Text
from tests.fakes.programs import fake_codex
from tests.helpers import await_until, is_alive, written

BOUND = 30.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(str(fake_codex(tmp_path)), "gpt-5", home=str(tmp_path / "home"), stall=20.0)


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    before = kernel.children(os.getpid())
    yield
    assert kernel.children(os.getpid()) == before
    assert not state.process.resources


class Made:
    """Conversations on the servers of one worker."""

    def __init__(self, settings: Settings, cwd: Path) -> None:
        self.servers = Servers()
        self._settings = settings
        self._cwd = str(cwd)

    def new(
        self, kept_as: str = "", *, sought: bool = False, known: bool = False, **changes: Any
    ) -> CodexConversation:
        settings = msgspec.structs.replace(self._settings, **changes)
        return CodexConversation(
            settings, self._cwd, self.servers, kept_as, sought=sought, known=known
        )


def run(settings: Settings, cwd: Path, body: Callable[[Made], Awaitable[object]]) -> None:
    async def bounded() -> None:
        try:
            async with asyncio.timeout(BOUND):
                await body(Made(settings, cwd))
        finally:
            await state.close_resources()

    asyncio.run(bounded())


async def events(conversation: CodexConversation, ask: Ask | str) -> list[Event]:
    ask = Ask(ask) if isinstance(ask, str) else ask
    return [event async for event in conversation.turn(ask)]


async def answer(conversation: CodexConversation, ask: Ask | str) -> str:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Result), end
    return end.answer


async def failure(conversation: CodexConversation, ask: Ask | str) -> Failed:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Failed), end
    return end


def with_variable(settings: Settings, name: str, value: str = "1") -> Settings:
    return msgspec.structs.replace(settings, environment=((name, value),))


# Turns -----------------------------------------------------------------------------------------


def test_a_turn_is_a_stream_with_one_end(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        heard = await events(one, "tool ls -l")
        assert [type(event) for event in heard] == [Opened, Did, Text, Text, Spent, Result]
        assert heard[1] == Did("command ls -l")
        assert heard[-1] == Result("used a tool")
        await one.close()

    run(settings, tmp_path, body)


def test_conversations_share_a_server(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        several = [made.new() for _ in range(5)]
        pids = await asyncio.gather(*(answer(one, "pid") for one in several))
        assert len(set(pids)) == 1
        assert await answer(made.new(home=str(tmp_path / "other")), "pid") not in pids

    run(settings, tmp_path, body)


def test_a_conversation_goes_on(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new(str(uuid.uuid4()))
        await answer(one, "say first")
        heard = await events(one, "history")
        assert heard[-1] == Result('["say first", "history"]')
        spent = [event.usage[0].input_tokens for event in heard if isinstance(event, Spent)]
        assert spent == [100]

    run(settings, tmp_path, body)


@pytest.mark.parametrize("rung", ["read-only", "bypass"])
def test_how_threads_and_turns_are_begun(
    settings: Settings, tmp_path: Path, rung: Permission
) -> None:
    async def body(made: Made) -> None:
        kept = made.new("name", permission=rung, effort="high")
        found = json.loads(await answer(kept, Ask("settings", schema='{"type": "object"}')))
        assert found["cwd"] == str(tmp_path)
        assert found["ephemeral"] is False
        assert found["name"] == "hmz-mp name"
        assert found["approvalPolicy"] == ("on-request" if rung == "read-only" else "never")
        assert found["turn"]["effort"] == "high"
        assert found["turn"]["outputSchema"] == {"type": "object"}
        assert found["config"]["model_providers.fake.request_max_retries"] == 0
        alone = json.loads(await answer(made.new(), "settings"))
        assert alone["ephemeral"] is True

    run(settings, tmp_path, body)


def test_a_provider_whose_retries_cannot_be_set(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), "say on") == "on"

    run(with_variable(settings, "FAKE_PROVIDER", "reserved"), tmp_path, body)


@pytest.mark.parametrize("text", ["bad \udcff name", "\x1b[31m[red]\x00", "\N{SNOWMAN}" * 9])
def test_any_text_goes_there_and_comes_back(settings: Settings, tmp_path: Path, text: str) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), f"say {text}") == text.replace("\udcff", "\\udcff")

    run(settings, tmp_path, body)


def test_objectives(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        heard = await events(one, Ask("complete the work", pursue=True))
        assert heard[-1] == Result("complete")
        assert sum(isinstance(event, Spent) for event in heard) == 2
        stuck = await failure(made.new(), Ask("blocked from here", pursue=True))
        assert (stuck.kind, stuck.answer) == ("refused", "blocked")

    run(settings, tmp_path, body)


# Resuming --------------------------------------------------------------------------------------


def test_a_server_that_was_killed(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one, other = made.new("one"), made.new("two")
        await answer(one, "say first")
        waiting = asyncio.ensure_future(failure(other, f"begin {tmp_path / 'pid'}"))
        await await_until(lambda: written(tmp_path / "pid"))
        killed = await failure(one, "kill")
        assert (killed.kind, killed.status) == ("died", -9)
        assert "ended with status -9" in killed.reason
        assert (await waiting).kind == "died"
        heard = await events(one, "history")
        assert heard[-1] == Result('["say first", "kill", "history"]')
        spent = [event.usage[0].input_tokens for event in heard if isinstance(event, Spent)]
        assert spent == [100]

    run(settings, tmp_path, body)


def test_a_turn_that_had_not_begun_when_its_server_ended_begins_on_another(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        one, other = made.new(), made.new()
        await answer(one, "say first")
        dying = asyncio.ensure_future(failure(one, "kill"))
        answers = await asyncio.gather(*(answer(made.new(), "say on") for _ in range(3)))
        assert answers == ["on"] * 3
        assert (await dying).kind == "died"
        assert await answer(other, "say on") == "on"

    run(settings, tmp_path, body)


def test_another_worker_finds_the_conversation_by_its_name(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        await answer(made.new("mine"), "say first")
        await answer(made.new("mine too"), "say other")
        found = Made(settings, tmp_path).new("mine", sought=True)
        assert json.loads(await answer(found, "history")) == ["say first", "history"]

    run(settings, tmp_path, body)


def test_a_conversation_that_is_gone_says_so_and_the_next_turn_begins_it(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        one = made.new("gone", sought=True, known=True)
        failed = await failure(one, "history")
        assert failed.kind == "died"
        assert "its conversation, 'hmz-mp gone', is no longer there" in failed.reason
        assert json.loads(await answer(one, "history")) == ["history"]

    run(settings, tmp_path, body)


def test_a_conversation_of_which_nothing_is_there_is_begun(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new("new", sought=True), "history") == '["history"]'
        one = made.new("lost before its first turn was written down")
        server = int(await answer(made.new(), "pid"))
        await events(one, "error unauthorized no")
        for file in (tmp_path / "home" / "threads").iterdir():
            file.unlink()
        os.kill(server, signal.SIGKILL)
        await await_until(lambda: not is_alive(server))
        assert await answer(one, "history") == '["history"]'

    run(settings, tmp_path, body)


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind", "says"),
    [
        ("deny touch /etc/x", "denied", "not permitted to use command touch /etc/x"),
        ("error unauthorized who are you", "unauthorised", "who are you"),
        ("error contextWindowExceeded no room", "too_long", "no room"),
        ("error internalServerError oops", "overloaded", "oops"),
        ("retry 429 status 429", "limited", "status 429"),
        ("retry 503 status 503", "overloaded", "status 503"),
        ("retry 0 stream disconnected again", "overloaded", "stream disconnected"),
        ("quota 60", "limited", "used up"),
    ],
)
def test_failures_that_the_server_survives(
    settings: Settings, tmp_path: Path, prompt: str, kind: str, says: str
) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        pid = await answer(one, "pid")
        failed = await failure(one, prompt)
        assert failed.kind == kind
        assert says in failed.reason
        assert (failed.retry_after is not None) is (prompt == "quota 60")
        assert await answer(one, "pid") == pid

    run(settings, tmp_path, body)


def test_a_connection_that_was_lost_once(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), "retry 0 stream disconnected") == "recovered"

    run(settings, tmp_path, body)


@pytest.mark.parametrize(
    "method",
    ["item/fileChange/requestApproval", "applyPatchApproval", "mcpServer/elicitation/request"],
)
def test_whatever_is_asked_is_declined(settings: Settings, tmp_path: Path, method: str) -> None:
    async def body(made: Made) -> None:
        end = (await events(made.new(), f"ask {method}"))[-1]
        assert isinstance(end, Result)
        assert "decline" in end.answer or "denied" in end.answer
        other = (await events(made.new(), "ask something/new"))[-1]
        assert isinstance(other, Result)
        assert "-32601" in other.answer

    run(settings, tmp_path, body)


def test_a_server_that_ends(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(), "exit 3 out of luck")
        assert (failed.kind, failed.status) == ("died", 3)
        assert failed.reason.endswith("ended with status 3 before the turn's end: out of luck")
        assert failed.detail == "out of luck\n"
        assert await answer(made.new(), "say on") == "on"

    run(settings, tmp_path, body)


def test_garbage_between_the_lines_is_passed_over(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        assert await answer(one, "garbage fine") == "fine"
        failed = await failure(one, "exit 3 x")
        assert "Warning: \\xff\\xfe" in failed.detail

    run(settings, tmp_path, body)


def test_an_endless_line(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "LINE_CEILING", 1 << 17)

    async def body(made: Made) -> None:
        failed = await failure(made.new(), "huge 1000000")
        assert failed.kind == "died"
        assert "a line of more than 131072 bytes" in failed.detail

    run(settings, tmp_path, body)


@pytest.mark.parametrize(
    ("how", "says"), [("silent", "it said nothing"), ("missing", "unrecognized subcommand")]
)
def test_a_server_that_does_not_start(
    settings: Settings, tmp_path: Path, how: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_START_SECONDS", 1.0)

    async def body(made: Made) -> None:
        failed = await failure(made.new(), "say x")
        assert failed.kind == "died"
        assert says in failed.reason

    run(with_variable(settings, "FAKE_START", how), tmp_path, body)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(), "say x")
        assert failed.kind == "died"
        assert "no such program" in failed.reason

    run(Settings(str(tmp_path / "none"), "gpt-5"), tmp_path, body)


@pytest.mark.parametrize("name", ["missing", "odd \udcff"])
def test_a_directory_that_is_none_for_it(settings: Settings, tmp_path: Path, name: str) -> None:
    (tmp_path / "odd \udcff").mkdir()

    async def body(made: Made) -> None:
        failed = await failure(made.new(), "say x")
        assert failed.kind == "died"
        assert "is not a directory" in failed.reason or "no directory for Codex" in failed.reason

    run(settings, tmp_path / name, body)


def test_silence_ends_the_turn_alone(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new(stall=0.3)
        pid = await answer(one, "pid")
        failed = await failure(one, "stall")
        assert failed.kind == "stalled"
        assert "nothing was heard of the program for 0.3 s" in failed.reason
        assert await answer(one, "pid") == pid

    run(settings, tmp_path, body)


# Stopping --------------------------------------------------------------------------------------


async def cancelled_in(conversation: CodexConversation, prompt: str, file: Path) -> list[int]:
    """Cancel a turn once it has written pids to a file; return those."""
    task = asyncio.ensure_future(events(conversation, prompt))
    await await_until(lambda: written(file))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return [int(word) for word in written(file).split()]


def test_cancelling_ends_what_runs_for_the_turn_and_nothing_else(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        one, other = made.new("one"), made.new("two")
        going_on = asyncio.ensure_future(answer(other, f"begin {tmp_path / 'other'}"))
        server, tool = await cancelled_in(one, f"child {tmp_path / 'pids'}", tmp_path / "pids")
        assert not is_alive(tool)
        assert is_alive(server)
        await await_until(lambda: written(tmp_path / "other"))
        other.interject("go on")
        assert await going_on == "heard go on"
        assert len(json.loads(await answer(one, "history"))) == 2

    run(settings, tmp_path, body)


def test_a_server_that_does_not_let_go_is_ended(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ABANDON_SECONDS", 0.3)
    monkeypatch.setattr(program_module, "TERM_GRACE", 0.2)
    monkeypatch.setattr(program_module, "CLOSE_GRACE", 0.1)

    async def body(made: Made) -> None:
        file = tmp_path / "pids"
        started = await cancelled_in(made.new(), f"child {file}", file)
        assert not any(is_alive(pid) for pid in started)

    run(with_variable(settings, "FAKE_STUBBORN"), tmp_path, body)


def test_an_answer_that_nobody_waits_for_any_more_is_no_error(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        pid = int(await answer(one, "pid"))
        for steps in range(12):
            turn = asyncio.ensure_future(events(made.new(), "say x"))
            for _ in range(steps):
                await asyncio.sleep(0)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
        os.kill(pid, signal.SIGKILL)
        await await_until(lambda: not is_alive(pid))
        gc.collect()

    run(settings, tmp_path, body)
    assert "never retrieved" not in caplog.text


def test_what_a_turn_left_running_ends_with_its_conversation(
    settings: Settings, tmp_path: Path
) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        await answer(one, f"leave {tmp_path / 'pid'}")
        (tool,) = [int(word) for word in written(tmp_path / "pid").split()]
        assert is_alive(tool)
        await one.close()
        assert not is_alive(tool)

    run(settings, tmp_path, body)


def test_a_server_that_nobody_uses_ends(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        made.servers = Servers(idle_seconds=0.05)
        one = made.new("kept")
        pid = int(await answer(one, "pid"))
        await await_until(lambda: not is_alive(pid))
        assert len(json.loads(await answer(one, "history"))) == 2

    run(settings, tmp_path, body)


# Interjecting ----------------------------------------------------------------------------------


def test_an_interjection_is_heard_in_the_turn(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        turn = asyncio.ensure_future(answer(one, f"begin {tmp_path / 'pid'}"))
        await await_until(lambda: written(tmp_path / "pid"))
        one.interject("faster \udcff")
        assert await turn == "heard faster \\udcff"

    run(settings, tmp_path, body)


def test_one_that_comes_before_the_turn_waits_for_it(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        one.interject("early")
        assert await answer(one, f"begin {tmp_path / 'pid'}") == "heard early"

    run(settings, tmp_path, body)


def test_one_that_comes_too_late_gets_a_turn_of_its_own(settings: Settings, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        turn = asyncio.ensure_future(events(one, f"late {tmp_path / 'pid'}"))
        await await_until(lambda: written(tmp_path / "pid"))
        one.interject("say in time")
        heard = await turn
        assert [event for event in heard if isinstance(event, Result)] == [Result("in time")]

    run(settings, tmp_path, body)
