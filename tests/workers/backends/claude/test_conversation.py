from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp_worker import kernel, state
from hmz_mp_worker.backends import program as program_module
from hmz_mp_worker.backends.claude import conversation as module
from hmz_mp_worker.backends.claude.conversation import ClaudeConversation
from hmz_mp_worker.backends.claude.settings import Settings
from hmz_mp_worker.backends.protocol import Ask, Did, Event, Failed, Opened, Result, Spent, Text
from tests.fakes.programs import fake_claude
from tests.helpers import await_until, is_alive, written

BOUND = 30.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(str(fake_claude(tmp_path)), "opus", home=str(tmp_path / "home"), stall=20.0)


@pytest.fixture(autouse=True)
def _nothing_runs_on() -> Iterator[None]:
    before = kernel.children(os.getpid())
    yield
    assert kernel.children(os.getpid()) == before
    assert not state.process.resources


def changed(settings: Settings, **changes: Any) -> Settings:
    return msgspec.structs.replace(settings, **changes)


def with_variable(settings: Settings, name: str, value: str = "1") -> Settings:
    return changed(settings, environment=((name, value),))


def run(body: Callable[[], Awaitable[object]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await body()

    asyncio.run(bounded())


async def events(conversation: ClaudeConversation, ask: Ask | str) -> list[Event]:
    ask = Ask(ask) if isinstance(ask, str) else ask
    return [event async for event in conversation.turn(ask)]


async def answer(conversation: ClaudeConversation, ask: Ask | str) -> str:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Result), end
    return end.answer


async def failure(conversation: ClaudeConversation, ask: Ask | str) -> Failed:
    end = (await events(conversation, ask))[-1]
    assert isinstance(end, Failed), end
    return end


# Turns -----------------------------------------------------------------------------------------


def test_a_turn_is_a_stream_with_one_end(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        heard = await events(one, "tool ls -l")
        assert [type(event) for event in heard] == [Opened, Did, Text, Spent, Result]
        assert heard[1] == Did("Bash ls -l")
        assert heard[-1] == Result("used a tool")
        await one.close()

    run(body)


def test_the_next_turn_of_one_that_is_not_kept_is_a_new_conversation(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        pid = await answer(one, "pid")
        assert one.reusable
        assert json.loads(await answer(one, "history")) == ["history"]
        assert await answer(one, "pid") == pid
        spent = [e for e in await events(one, "say x") if isinstance(e, Spent)]
        assert [usage.input_tokens for usage in spent[0].usage] == [100]
        await one.close()

    run(body)


def test_a_kept_conversation_goes_on(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        await answer(one, "say first")
        assert not one.reusable
        assert json.loads(await answer(one, "history")) == ["say first", "history"]
        spent = [e for e in await events(one, "say x") if isinstance(e, Spent)]
        assert [usage.input_tokens for usage in spent[0].usage] == [100]
        await one.close()

    run(body)


def test_asking_again_goes_on_in_any_conversation(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        await answer(one, "say first")
        said = await answer(one, Ask("history", again=True))
        assert json.loads(said) == ["say first", "history"]
        await one.close()

    run(body)


@pytest.mark.parametrize("how", ["same", "never"])
def test_a_program_that_does_not_begin_anew_is_replaced(
    settings: Settings, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)

    async def body() -> None:
        one = ClaudeConversation(with_variable(settings, "FAKE_CLEAR", how), None)
        pid = await answer(one, "pid")
        assert await answer(one, "pid") != pid
        await one.close()

    run(body)


def test_pieces_of_a_kept_conversation(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        heard = await events(one, Ask("say abcd", stream=True))
        assert [e.text for e in heard if isinstance(e, Text)] == ["ab", "cd"]
        await one.close()

    run(body)


def test_another_schema_is_another_program_of_the_same_conversation(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        pid = await answer(one, "pid")
        assert json.loads(await answer(one, Ask('value {"n": 3}', "{}"))) == {"n": 3}
        assert await answer(one, "pid") != pid
        assert len(json.loads(await answer(one, "history"))) == 4
        await one.close()

    run(body)


def test_no_value_of_the_schema(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        assert (await failure(one, Ask("say words", "{}"))).kind == "schema"
        assert one.reusable
        await one.close()

    run(body)


@pytest.mark.parametrize("prompt", ["/clear", "/compact now", "/history"])
def test_a_prompt_is_no_command_of_the_program(settings: Settings, prompt: str) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        await answer(one, prompt)
        assert json.loads(await answer(one, "history")) == [f" {prompt}", "history"]
        await one.close()
        commands = ClaudeConversation(changed(settings, commands=True), None, str(uuid.uuid4()))
        await answer(commands, "/say x")
        assert json.loads(await answer(commands, "history")) == ["/say x", "history"]
        await commands.close()

    run(body)


def test_an_objective_is_the_goal_command(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        assert await answer(one, Ask("/all tests pass", pursue=True)) == "pursued /all tests pass"
        await one.close()

    run(body)


@pytest.mark.parametrize("text", ["bad \udcff name", "\x1b[31m[red]\x00", "\N{SNOWMAN}" * 9])
def test_any_text_goes_there_and_comes_back(settings: Settings, text: str) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        wanted = text.replace("\udcff", "\\udcff")
        assert await answer(one, f"say {text}") == wanted
        await one.close()

    run(body)


def test_where_and_with_what_it_runs(settings: Settings, tmp_path: Path) -> None:
    async def body() -> None:
        folder = tmp_path / "a folder"
        folder.mkdir()
        made = changed(settings, environment=(("MINE", "a b"),), homes=True)
        one = ClaudeConversation(made, str(folder))
        assert await answer(one, "cwd") == str(folder)
        assert await answer(one, "env MINE") == "a b"
        home = Path(await answer(one, "env HOME"))
        assert home.parent == tmp_path / "home"
        two = ClaudeConversation(made, str(folder))
        assert Path(await answer(two, "env HOME")) != home
        await one.close()
        await two.close()

    run(body)


# Resuming --------------------------------------------------------------------------------------


def test_a_program_that_was_killed_is_resumed(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        await answer(one, "say first")
        assert (await failure(one, "kill")).status == -9
        assert json.loads(await answer(one, "history")) == ["say first", "kill", "history"]
        await one.close()

    run(body)


def test_a_program_that_ends_after_its_turn_is_replaced_by_the_next(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        for _ in range(5):  # whether its end is noticed before the next turn begins, or in it
            assert await answer(one, "leave") == "good bye"
        assert len(json.loads(await answer(one, "history"))) == 6
        await one.close()

    run(body)


def test_another_worker_resumes_by_the_id(settings: Settings) -> None:
    async def body() -> None:
        name = str(uuid.uuid4())
        lost = ClaudeConversation(settings, None, name)
        await answer(lost, "say first")
        await lost.close()
        found = ClaudeConversation(settings, None, name, known=True)
        assert json.loads(await answer(found, "history")) == ["say first", "history"]
        await found.close()

    run(body)


def test_a_first_turn_that_was_lost_on_the_way_is_gone_on_with(settings: Settings) -> None:
    async def body() -> None:
        name = str(uuid.uuid4())
        lost = ClaudeConversation(settings, None, name)
        assert (await failure(lost, "kill")).kind == "died"
        again = ClaudeConversation(settings, None, name)
        heard = await events(again, "history")
        assert isinstance(heard[-1], Result)
        assert json.loads(heard[-1].answer) == ["kill", "history"]
        assert not any(isinstance(event, Failed) for event in heard)
        await again.close()

    run(body)


def test_a_conversation_that_is_gone_says_so_and_the_next_turn_begins_it(
    settings: Settings,
) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()), known=True)
        failed = await failure(one, "history")
        assert failed.kind == "died"
        assert "No conversation found" in failed.reason
        assert json.loads(await answer(one, "history")) == ["history"]
        await one.close()

    run(body)


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind", "says"),
    [
        ("deny Edit", "denied", "not permitted to use Edit"),
        ("error 401 who are you", "unauthorised", "who are you"),
        ("error 429 slow down", "limited", "slow down"),
        ("error 500 oops", "overloaded", "oops"),
        ("error 0 cannot connect", "overloaded", "cannot connect"),
        ("error 404 no such model", "refused", "no such model"),
        ("too-long", "too_long", "Prompt is too long"),
        ("refuse I will not", "refused", "I will not"),
        ("retry 429 7", "limited", "status 429 (rate_limit)"),
        ("retry 503", "overloaded", "status 503"),
    ],
)
def test_failures_that_the_program_survives(
    settings: Settings, prompt: str, kind: str, says: str
) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        pid = await answer(one, "pid")
        failed = await failure(one, prompt)
        assert failed.kind == kind
        assert says in failed.reason
        assert failed.retry_after == (7.0 if prompt == "retry 429 7" else None)
        assert one.reusable
        assert await answer(one, "pid") == pid
        await one.close()

    run(body)


@pytest.mark.parametrize(
    ("prompt", "kind", "status", "says"),
    [
        ("exit 3 out of luck", "died", 3, "ended with status 3 before the turn's end: out of luck"),
        ("kill", "died", -9, "ended with status -9"),
        ("partial", "died", 0, "ended with status 0"),
    ],
)
def test_programs_that_end(
    settings: Settings, prompt: str, kind: str, status: int, says: str
) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        failed = await failure(one, prompt)
        assert (failed.kind, failed.status) == (kind, status)
        assert says in failed.reason
        assert not one.reusable
        assert await answer(one, "say on") == "on"  # by a new program
        await one.close()

    run(body)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def body() -> None:
        one = ClaudeConversation(Settings(str(tmp_path / "none"), "opus"), None)
        failed = await failure(one, "say x")
        assert failed.kind == "died"
        assert "no such program" in failed.reason

    run(body)


def test_silence(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(changed(settings, stall=0.4), None)
        failed = await failure(one, "stall")
        assert failed.kind == "stalled"
        assert "nothing was heard of the program for 0.4 s" in failed.reason
        assert not one.alive

    run(body)


def test_an_endless_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "LINE_CEILING", 1 << 17)

    async def body() -> None:
        one = ClaudeConversation(settings, None)
        failed = await failure(one, "huge 1000000")
        assert failed.kind == "died"
        assert "a line of more than 131072 bytes" in failed.reason

    run(body)


def test_garbage_between_the_lines_is_passed_over_and_kept(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        assert await answer(one, "garbage fine") == "fine"
        failed = await failure(one, "exit 3 x")
        assert "Warning: \\xff\\xfe not JSON" in failed.detail
        await one.close()

    run(body)


def test_a_turn_that_has_failed_and_is_not_let_go_of(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(program_module, "TERM_GRACE", 0.2)

    async def body() -> None:
        one = ClaudeConversation(with_variable(settings, "FAKE_STUBBORN"), None)
        assert (await failure(one, "retry 429 5")).kind == "limited"
        assert not one.alive

    run(body)


def test_a_program_that_stays_after_its_last_turn(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "TERM_GRACE", 0.2)
    monkeypatch.setattr(program_module, "CLOSE_GRACE", 0.1)

    async def body() -> None:
        one = ClaudeConversation(with_variable(settings, "FAKE_STUBBORN"), None)
        pid = int(await answer(one, "pid"))
        await one.close()
        assert not is_alive(pid)

    run(body)


# Stopping --------------------------------------------------------------------------------------


async def cancelled_in(conversation: ClaudeConversation, prompt: str, file: Path) -> list[int]:
    """Cancel a turn once it has written pids to a file; return those."""
    task = asyncio.ensure_future(events(conversation, prompt))
    await await_until(lambda: written(file))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return [int(word) for word in written(file).split()]


@pytest.mark.parametrize("stubborn", [False, True])
def test_cancelling_ends_the_program_and_its_tools(
    settings: Settings, tmp_path: Path, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "TERM_GRACE", 0.3)
    file = tmp_path / "pids"
    if stubborn:
        settings = with_variable(settings, "FAKE_STUBBORN")

    async def body() -> None:
        one = ClaudeConversation(settings, None)
        started = await cancelled_in(one, f"child {file}", file)
        assert len(started) == 2
        assert not any(is_alive(pid) for pid in started)

    run(body)


def test_a_kept_conversation_goes_on_after_a_cancelled_turn(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "pids"

    async def body() -> None:
        one = ClaudeConversation(settings, None, str(uuid.uuid4()))
        await answer(one, "say first")
        await cancelled_in(one, f"child {file}", file)
        assert json.loads(await answer(one, "history")) == [
            "say first",
            f"child {file}",
            "history",
        ]
        await one.close()

    run(body)


def test_a_program_that_leaves_something_running_is_not_used_again(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "pids"

    async def body() -> None:
        one = ClaudeConversation(settings, None)
        assert await answer(one, f"background {file}") == "in the background"
        assert not one.reusable
        assert not any(is_alive(int(word)) for word in written(file).split())

    run(body)


# Interjecting ----------------------------------------------------------------------------------


def test_an_interjection_is_heard_in_the_turn(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "pid"

    async def body() -> None:
        one = ClaudeConversation(settings, None)
        turn = asyncio.ensure_future(answer(one, f"begin {file}"))
        await await_until(lambda: written(file))
        one.interject("faster")
        assert await turn == "heard ['faster']"
        await one.close()

    run(body)


def test_one_that_comes_too_late_for_the_answer_gets_another(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "pid"

    async def body() -> None:
        one = ClaudeConversation(settings, None)
        turn = asyncio.ensure_future(answer(one, f"late {file}"))
        await await_until(lambda: written(file))
        one.interject("say in time")
        assert await turn == "in time"
        await one.close()

    run(body)


def test_one_that_comes_before_the_program_waits_for_it(settings: Settings) -> None:
    async def body() -> None:
        one = ClaudeConversation(settings, None)
        one.interject("early")
        assert await answer(one, "sleep 20") == "heard ['early']"
        assert await answer(one, "sleep 0") == "heard []"
        await one.close()

    run(body)
