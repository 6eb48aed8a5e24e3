from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends import program as program_module
from hmz_mp_worker.backends.acp import conversation as module
from hmz_mp_worker.backends.acp.conversation import AcpConversation
from hmz_mp_worker.backends.acp.settings import Permission
from hmz_mp_worker.backends.protocol import Ask, Did, Failed, Opened, Result, Spent, Text, Usage
from hmz_mp_worker.backends.shared import Shared
from tests.helpers import await_until, is_alive, written
from tests.workers.backends.acp.conftest import Made, Run, answer, events, failure


async def pids(file: Path) -> list[int]:
    await await_until(lambda: written(file))
    return [int(word) for word in written(file).split()]


# Turns -----------------------------------------------------------------------------------------


async def noticed(one: AcpConversation) -> None:
    """Wait until the end of a conversation's program is known where it is driven."""
    await await_until(lambda: one._agent is None or not one._agent.alive)


def test_a_turn_is_a_stream_with_one_end(run: Run) -> None:
    async def body(made: Made) -> None:
        heard = await events(made.new(), "tool ls -l")
        assert [type(event) for event in heard] == [Opened, Text, Did, Text, Text, Spent, Result]
        assert heard[2] == Did("execute ls -l")
        assert heard[-2] == Spent((Usage("small", 100, 10, 20),))
        assert heard[-1] == Result("used a tool")

    run(body)


def test_conversations_share_a_program(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        several = [made.new() for _ in range(5)]
        found = await asyncio.gather(*(answer(one, "pid") for one in several))
        assert len(set(found)) == 1
        assert await answer(made.new(home=str(tmp_path / "other")), "pid") not in found
        histories = await asyncio.gather(*(answer(one, "history") for one in several))
        assert histories == ['["pid", "history"]'] * 5

    run(body)


def test_a_program_of_its_own(run: Run) -> None:
    async def body(made: Made) -> None:
        one, other = made.new(fresh=True), made.new(fresh=True)
        pid = await answer(one, "pid")
        assert await answer(one, Ask("pid", again=True)) == pid
        assert await answer(other, "pid") != pid
        await one.close()
        await await_until(lambda: not is_alive(int(pid)))

    run(body)


def test_directories_are_the_sessions(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        said = [await answer(made.new(cwd=one), "settings") for one in (here, there)]
        assert [json.loads(one)["cwd"] for one in said] == [str(here), str(there)]
        assert (await failure(made.new(cwd=tmp_path / "none"), "say x")).kind == "died"

    run(body)


def test_a_schema_is_asked_for_in_words(run: Run) -> None:
    async def body(made: Made) -> None:
        schema = '{"type": "object"}'
        one = made.new()
        heard = json.loads(await answer(one, Ask("history", schema=schema)))
        assert heard == [
            "history\n\nAnswer with JSON that fits this JSON schema, and with nothing else:\n"
            '{"type": "object"}'
        ]
        again = json.loads(await answer(one, Ask("history", schema=schema, again=True)))
        assert again[1:] == ["history"]

    run(body)


def test_prompts_are_no_commands(run: Run) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), "/say on") == "answer to  /say on"
        assert await answer(made.new(commands=True), "/say on") == "answer to /say on"

    run(body)


def test_an_objective_is_a_prompt(run: Run) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), Ask("say on", pursue=True)) == "on"

    run(body)


@pytest.mark.parametrize("text", ["bad \udcff name", "\x1b[31m[red]\x00", "\N{SNOWMAN}" * 9])
def test_any_text_goes_there_and_comes_back(run: Run, text: str) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), f"say {text}") == text.replace("\udcff", "\\udcff")

    run(body)


def test_odd_lines_are_kept_beside_the_protocol(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        assert await answer(one, "garbage on") == "on"
        died = await failure(one, "exit 3 bye")
        assert "Warning: \x1b[31m?\n[1]\n" in died.detail

    run(body)


# What sessions are set to ----------------------------------------------------------------------


async def settings(made: Made, **changes: Any) -> dict[str, Any]:
    found = json.loads(await answer(made.new(**changes), "settings"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("options", ["new", "old"])
def test_models_and_modes(run: Run, options: str) -> None:
    async def body(made: Made) -> None:
        offered = {"FAKE_OPTIONS": options}
        found = await settings(made, model="large", **offered)
        assert (found["model"], found["mode"]) == ("large", "default")
        assert (await settings(made, permission="auto", **offered))["mode"] == "auto"
        assert (await settings(made, permission="bypass", **offered))["mode"] == "build"
        assert (await settings(made, mode="plan", **offered))["mode"] == "plan"
        (used,) = [one for one in await events(made.new(model="large"), "x") if type(one) is Spent]
        assert used.usage[0].model == "large"

    run(body)


def test_effort(run: Run) -> None:
    async def body(made: Made) -> None:
        assert (await settings(made, effort="high"))["effort"] == "high"

    run(body)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": "huge"}, "no model 'huge': Invalid params; it has small, large"),
        ({"mode": "mad"}, "no mode 'mad': Invalid params; it has build, default"),
        ({"model": "large", "FAKE_OPTIONS": "none"}, "has no model to be set"),
        ({"effort": "high", "FAKE_OPTIONS": "old"}, "has no thought level to be set"),
    ],
)
def test_what_cannot_be_set(run: Run, changes: dict[str, Any], says: str) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(**changes), "say x")
        assert failed.kind == "refused"
        assert says in failed.reason

    run(body)


def test_a_program_with_nothing_to_be_set(run: Run) -> None:
    async def body(made: Made) -> None:
        heard = await events(made.new(FAKE_OPTIONS="none"), "say x")
        (used,) = [one for one in heard if isinstance(one, Spent)]
        assert used.usage[0].model == "acp-agent"

    run(body)


# What agents may do ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "wanted", "permitted"),
    [
        ("read-only", "read a.txt", True),
        ("read-only", "edit a.txt", False),
        ("workspace-write", "edit a.txt", True),
        ("workspace-write", "edit ../a.txt", False),
        ("workspace-write", "execute", False),
        ("bypass", "execute", True),
    ],
)
def test_permissions(
    run: Run, tmp_path: Path, rung: Permission, wanted: str, permitted: bool
) -> None:
    async def body(made: Made) -> None:
        end = (await events(made.new(permission=rung), f"ask {wanted}"))[-1]
        option = "the allow_once" if permitted else "the reject_once"
        outcome = {"outcome": "selected", "optionId": option}
        if permitted:
            assert isinstance(end, Result)
        else:
            assert isinstance(end, Failed)
            assert end.kind == "denied"
            assert wanted.split()[0] in end.reason
        assert json.loads(end.answer) == outcome
        assert (tmp_path / "a.txt").exists() is (permitted and "a.txt" in wanted)

    run(body)


def test_a_question_without_a_no(run: Run) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(FAKE_OFFERED="allow_once"), "ask execute")
        assert failed.kind == "denied"
        assert json.loads(failed.answer) == {"outcome": "cancelled"}

    run(body)


def test_what_is_done_without_a_question(run: Run) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(), "unasked edit a.txt") == "done"
        failed = await failure(made.new(permission="read-only"), "unasked edit a.txt")
        assert failed.kind == "denied"
        assert "did not ask: edit Change a.txt" in failed.reason

    run(body)


def test_files(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        text = json.dumps({"path": str(tmp_path / "a.txt"), "content": "1\n2\n"})
        assert json.loads(await answer(made.new(), f"write {text}")) == {"result": {}}
        assert (tmp_path / "a.txt").read_text() == "1\n2\n"

    run(body)


def test_files_that_it_may_not_have(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        text = '{"path": "../a.txt", "content": "x"}'
        inside = '{"path": "a.txt", "content": "x"}'
        (tmp_path / "sub").mkdir()
        outside = await failure(made.new(cwd=tmp_path / "sub"), f"write {text}")
        assert outside.kind == "denied"
        assert "not permitted to use edit ../a.txt" in outside.reason
        read_only = await failure(made.new(permission="read-only"), f"write {inside}")
        assert read_only.kind == "denied"
        assert not (tmp_path / "a.txt").exists()

    run(body)


@pytest.mark.parametrize("method", ["terminal/create", "fs/read_text_file"])
def test_what_is_not_offered(run: Run, method: str) -> None:
    async def body(made: Made) -> None:
        said = json.loads(await answer(made.new(), f"want {method}"))
        assert said["error"] == {
            "code": -32601,
            "message": f"there is nobody to answer {method}",
            "data": None,
        }

    run(body)


# Resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reopens", ["load", "resume"])
def test_a_program_that_was_killed(run: Run, tmp_path: Path, reopens: str) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True, FAKE_REOPENS=reopens)
        other = made.new(FAKE_REOPENS=reopens)
        await answer(one, "say first")
        waiting = asyncio.ensure_future(failure(other, f"pause {tmp_path / 'pid'}"))
        await pids(tmp_path / "pid")
        killed = await failure(one, "kill")
        assert (killed.kind, killed.status) == ("died", -9)
        assert "ended with status -9" in killed.reason
        assert (await waiting).kind == "died"
        heard = await events(one, "history")
        assert heard[-1] == Result('["say first", "kill", "history"]')
        # What was said before is said again by some, and is no part of this turn.
        assert sum(isinstance(event, Text) for event in heard) == 2
        found = json.loads(await answer(one, "settings"))
        assert found["cwd"] == str(tmp_path)

    run(body)


def test_another_worker_goes_on(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True)
        (opened, *_) = await events(one, "say first")
        assert isinstance(opened, Opened)
        elsewhere = Made(tmp_path)
        found = elsewhere.new(kept=True, known_as=opened.conversation, known=True)
        assert json.loads(await answer(found, "history")) == ["say first", "history"]

    run(body)


@pytest.mark.parametrize(
    ("known_as", "says"),
    [
        ("some-session", "was lost: some-session is no longer there: Internal"),
        (None, "knows its name"),
    ],
)
def test_a_conversation_that_is_gone_says_so_and_the_next_turn_begins_it(
    run: Run, known_as: str | None, says: str
) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True, known_as=known_as, known=True)
        failed = await failure(one, "history")
        assert failed.kind == "died"
        assert says in failed.reason
        assert json.loads(await answer(one, "history")) == ["history"]

    run(body)


def test_a_conversation_of_which_nothing_is_there_is_begun(run: Run) -> None:
    async def body(made: Made) -> None:
        assert await answer(made.new(kept=True, known_as="lost"), "history") == '["history"]'

    run(body)


def test_a_program_that_cannot_go_on_with_sessions(run: Run) -> None:
    async def body(made: Made) -> None:
        made.agents = Shared(0.0)
        one = made.new(kept=True, FAKE_REOPENS="none")
        pid = await answer(one, "pid")
        assert await answer(one, "pid") == pid  # it is not ended while it is needed
        await failure(one, "kill")
        failed = await failure(one, "history")
        assert failed.kind == "died"
        assert "its program cannot go on with one" in failed.reason
        assert json.loads(await answer(one, "history")) == ["history"]
        last = int(await answer(one, "pid"))
        await one.close()
        await await_until(lambda: not is_alive(last))

    run(body)


def test_a_turn_that_had_not_begun_when_its_program_ended_begins_in_another(run: Run) -> None:
    async def body(made: Made) -> None:
        one, other = made.new(), made.new()
        await answer(one, "say first")
        dying = asyncio.ensure_future(failure(one, "kill"))
        answers = await asyncio.gather(*(answer(made.new(), "say on") for _ in range(3)))
        assert answers == ["on"] * 3
        assert (await dying).kind == "died"
        assert await answer(other, "say on") == "on"

    run(body)


def test_a_session_that_could_not_be_set_up_is_not_used_as_it_is(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True, mode="mad")
        for _ in range(2):
            assert "no mode 'mad'" in (await failure(one, "say x")).reason

    run(body)


def test_a_conversation_is_not_forgotten_when_its_next_program_dies(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True)
        pid = int(await answer(one, "pid"))
        os.kill(pid, signal.SIGKILL)
        await noticed(one)
        (made.folder / "home" / "die").touch()
        died = await failure(one, "history")
        assert (died.kind, died.status) == ("died", 9)
        (made.folder / "home" / "die").unlink()
        assert json.loads(await answer(one, "history")) == ["pid", "history"]

    run(body)


def test_what_it_is_set_to_is_set_again(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new(kept=True, permission="auto", model="large")
        pid = int(await answer(one, "pid"))
        os.kill(pid, signal.SIGKILL)
        await noticed(one)
        found = json.loads(await answer(one, "settings"))
        assert (found["mode"], found["model"]) == ("auto", "large")
        assert found["changed"] == ["model"]  # by which it said what else it is set to

    run(body)


def test_a_turn_that_cannot_be_asked_again(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        await failure(one, "kill")
        failed = await failure(one, Ask("Your answer cannot be used", again=True))
        assert "ended before it could be asked again" in failed.reason

    run(body)


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind", "says"),
    [
        ("error -32000 Authentication required", "unauthorised", "Run `fake login`"),
        ("error -32603 Internal error: Overloaded", "overloaded", "Overloaded"),
        ('error -32603 Internal error with {"details": "429 slow"}', "limited", "429 slow"),
        ("error -32603 prompt is too long: 3", "too_long", "prompt is too long"),
        ("error -32602 no", "refused", "no"),
        ("stop refusal", "refused", "would not do it"),
        ("stop max_tokens", "refused", "cut off"),
        ("stop cancelled", "refused", "the turn was cancelled"),
    ],
)
def test_failures_that_the_program_survives(run: Run, prompt: str, kind: str, says: str) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        pid = await answer(one, "pid")
        failed = await failure(one, prompt)
        assert failed.kind == kind
        assert says in failed.reason
        assert await answer(one, "pid") == pid

    run(body)


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"FAKE_LOGIN": 1}, "unauthorised", "Authentication required: Run `fake login`"),
        ({"FAKE_LOGIN": 1, "auth": "other"}, "unauthorised", "auth=other was refused"),
        ({"FAKE_START": "plain"}, "died", "does not speak the Agent Client Protocol"),
        ({"command": ("/no/such",)}, "died", "no such program was found"),
    ],
)
def test_programs_that_do_not_begin(
    run: Run, changes: dict[str, Any], kind: str, says: str
) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(**changes), "say x")
        assert failed.kind == kind
        assert says in failed.reason

    run(body)


def test_silence_ends_the_turn_and_what_it_started(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        failed = await failure(made.new(stall=0.2), f"child {tmp_path / 'pids'}")
        assert failed.kind == "stalled"
        assert "for 0.2 s" in failed.reason
        assert not any(map(is_alive, await pids(tmp_path / "pids")))

    run(body)


def test_silence_before_there_is_a_session(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Made) -> None:
        pid = int(await answer(made.new(), "pid"))
        os.kill(pid, signal.SIGSTOP)
        failed = await failure(made.new(stall=0.2), "say x")
        assert failed.kind == "stalled"
        assert not is_alive(pid)

    monkeypatch.setattr(program_module, "TERM_GRACE", 0.1)
    run(body)


# Their end -------------------------------------------------------------------------------------


async def left(turn: asyncio.Future[Any]) -> None:
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)


def test_a_turn_that_is_left_ends_its_tools_and_no_other_turn(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        other = asyncio.ensure_future(answer(made.new(), f"pause {tmp_path / 'other'}"))
        await pids(tmp_path / "other")
        turn = asyncio.ensure_future(events(made.new(), f"child {tmp_path / 'pids'}"))
        program, tool = await pids(tmp_path / "pids")
        await left(turn)
        assert not is_alive(tool)
        assert is_alive(program)
        (tmp_path / "other.go").touch()
        assert await other == "went on"

    run(body)


def test_a_turn_that_was_alone_takes_its_program_with_it(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        kept = made.new(kept=True)
        await answer(kept, f"leave {tmp_path / 'left'}")
        turn = asyncio.ensure_future(events(kept, f"child {tmp_path / 'pids'}"))
        started = [*await pids(tmp_path / "pids"), *await pids(tmp_path / "left")]
        await left(turn)
        assert not any(map(is_alive, started))
        assert len(json.loads(await answer(kept, "history"))) == 3

    run(body)


def test_a_program_that_does_not_let_go_is_ended(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(made: Made) -> None:
        turn = asyncio.ensure_future(
            events(made.new(FAKE_STUBBORN=1), f"child {tmp_path / 'pids'}")
        )
        started = await pids(tmp_path / "pids")
        await left(turn)
        assert not any(map(is_alive, started))

    monkeypatch.setattr(module, "_ABANDON_SECONDS", 0.1)
    monkeypatch.setattr(program_module, "TERM_GRACE", 0.1)
    run(body)


def test_a_turn_can_be_left_at_any_step(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body(made: Made) -> None:
        holding = made.new()
        pid = int(await answer(holding, "pid"))
        for steps in range(25):
            conversation = made.new()
            turn = asyncio.ensure_future(events(conversation, "ask edit a.txt"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await left(turn)
            await conversation.close()
        assert await answer(made.new(), "say on") == "on"
        for one in {pid, int(await answer(made.new(), "pid"))}:
            if is_alive(one):
                os.kill(one, signal.SIGKILL)
        gc.collect()

    run(body)
    assert "never retrieved" not in caplog.text
    assert not caplog.records


def test_a_program_that_nobody_uses_ends(run: Run) -> None:
    async def body(made: Made) -> None:
        made.agents = Shared(0.05)
        one = made.new(kept=True)
        pid = int(await answer(one, "pid"))
        await await_until(lambda: not is_alive(pid))
        assert len(json.loads(await answer(one, "history"))) == 2

    run(body)


# Interjecting ----------------------------------------------------------------------------------


def test_an_interjection_gets_a_turn_of_its_own(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        turn = asyncio.ensure_future(events(one, f"pause {tmp_path / 'pid'}"))
        await pids(tmp_path / "pid")
        one.interject("say in")
        one.interject("time")
        (tmp_path / "pid.go").touch()
        heard = await turn
        assert [event for event in heard if isinstance(event, Result)] == [Result("in\n\ntime")]

    run(body)


def test_a_program_that_asks_hears_it_in_the_turn(run: Run, tmp_path: Path) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        turn = asyncio.ensure_future(answer(one, f"drain {tmp_path / 'pid'}"))
        await pids(tmp_path / "pid")
        one.interject("faster \udcff")
        (tmp_path / "pid.go").touch()
        said = json.loads(await turn)
        assert said["result"] == {"messages": ["faster \\udcff"], "hasQueuedPrompt": False}

    run(body)


def test_what_was_said_to_a_turn_that_failed_is_not_heard_by_the_next(run: Run) -> None:
    async def body(made: Made) -> None:
        one = made.new()
        one.interject("say more")
        await failure(one, "error -32602 no")
        assert await answer(one, "say on") == "on"

    run(body)
