from __future__ import annotations

import itertools
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import (
    Agent,
    AgentBase,
    Failed,
    Prompt,
    Spent,
    TurnEvent,
    agent_from_spec,
    batches,
)
from hmz_mp.errors import BadInput, RemoteTraceback, Stopped, WorkerDied
from hmz_mp.toolbox.python import Function, Outline
from tests.agents.conftest import running, tool
from tests.agents.functions import Odd
from tests.helpers import await_until

pytestmark = pytest.mark.anyio


class Pair(msgspec.Struct):
    name: str
    size: int


# One turn --------------------------------------------------------------------------------------


async def test_one_turn(pool: Pool) -> None:
    assert await tool("shout").aturn("look") == "LOOK"
    assert await agent_from_spec("sh/tr a-z A-Z").aturn("look") == "LOOK"
    assert await tool("shout").apursue("look") == "LOOK"


async def test_a_turn_about_a_file(pool: Pool) -> None:
    prompt = Prompt("look", path=b"bad\xff.py")
    with running(pool):
        assert await tool("about").aturn(prompt, schema=list[str]) == [
            "look",
            "bad\udcff.py",
            "bad\udcff.py",
            "the task",
        ]
    name = await agent_from_spec("sh/printf %s {path}").aturn(prompt)
    assert os.fsencode(name) == b"bad\xff.py"


async def test_a_turn_in_a_directory(pool: Pool, tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    for agent in (tool("where"), agent_from_spec("sh/pwd -P")):
        assert await agent.aturn("look", cwd=tmp_path) == real
        assert await agent.new(tmp_path).aturn("look") == real
        assert await agent.abatch(["look"], cwd=tmp_path) == [real]
    assert await tool("where").aturn("look") == str(Path.cwd())


async def test_an_answer_of_a_type(pool: Pool) -> None:
    assert await tool("pair").aturn("look", schema=Pair) == Pair("look", 4)
    assert await tool("pair").abatch(["a", "bb"], schema=Pair) == [Pair("a", 1), Pair("bb", 2)]


async def test_an_answer_that_is_not_of_the_type(pool: Pool) -> None:
    with pytest.raises(Failed, match="the answer does not fit Pair: ") as caught:
        await tool("shout").aturn("look", schema=Pair)
    assert caught.value.returncode == 1
    assert await tool("shout").aturn("look", schema=Pair, suppress=True) is None


async def test_a_schema_that_is_none(pool: Pool) -> None:
    with pytest.raises(TypeError, match="schema="):
        await tool("shout").abatch(["look"], schema=3)


# Failures --------------------------------------------------------------------------------------


async def test_a_function_that_raises(pool: Pool) -> None:
    with pytest.raises(Failed) as caught:
        await tool("fail_on_bad").aturn(Prompt("bad", item_id="src/a.py"))
    failed = caught.value
    assert isinstance(failed, subprocess.CalledProcessError)
    assert str(failed) == "src/a.py: Odd: bad is bad"
    assert isinstance(failed.cause, Odd)
    assert failed.__cause__ is failed.cause
    assert isinstance(failed.cause.__cause__, RemoteTraceback)
    assert failed.returncode == 1
    assert failed.stderr == "bad is bad\nand more"


async def test_a_command_that_fails(pool: Pool) -> None:
    agent = agent_from_spec("""sh/sh -c 'echo part; echo "last words" >&2; exit 3'""")
    with pytest.raises(Failed) as caught:
        await agent.aturn("look")
    failed = caught.value
    assert (failed.returncode, failed.output, failed.stderr) == (3, "part\n", "last words\n")
    assert failed.reason == "sh exited with status 3: last words"
    assert failed.cmd[:2] == ["sh", "-c"]


async def test_a_worker_that_dies(pool: Pool) -> None:
    with pytest.raises(Failed) as caught:
        await tool("die").aturn("look")
    assert isinstance(caught.value.cause, WorkerDied)
    assert caught.value.returncode == -9


async def test_a_turn_that_takes_too_long(pool: Pool, tmp_path: Path) -> None:
    for name in ("hold", "ahold"):
        agent = agent_from_spec(f"cli=tool,model=tests.agents.functions:{name},timeout=0.3")
        with pytest.raises(Failed, match=r"not done 0\.3 s after") as caught:
            await agent.aturn(f"{tmp_path}|{name}")
        assert caught.value.returncode == 124


async def test_suppressed_failures(pool: Pool) -> None:
    agent = tool("fail_on_bad")
    assert await agent.aturn("bad", suppress=True) == ""
    assert await agent.abatch(["a", "bad", "c"], suppress=True) == ["a", "", "c"]
    assert await agent.abatch(["1", "bad"], suppress=True, schema=int) == [1, None]


async def test_retries(pool: Pool) -> None:
    agent = agent_from_spec("cli=tool,model=tests.agents.functions:fail_on_bad,retries=2")
    with running(pool) as run:
        assert await agent.aturn("bad", suppress=True) == ""
    (record,) = run.records()
    assert record.attempts == 3


# Batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [0, 1, 7])
async def test_answers_are_in_the_order_asked(pool: Pool, at_once: int) -> None:
    prompts = [f"p{number}" for number in range(300)]
    agent = tool("shout")
    answers = await agent.abatch(iter(prompts), at_once=at_once)
    assert answers == [prompt.upper() for prompt in prompts]
    assert agent.opened == 300
    assert agent.sessions == ()


async def test_an_empty_batch(pool: Pool) -> None:
    assert await tool("shout").abatch([]) == []
    assert [answer async for answer in tool("shout").amap([])] == []


async def test_the_first_failure_is_raised_once_all_have_ended(pool: Pool) -> None:
    agent = tool("fail_on_bad")
    ended: list[str] = []
    agent.watch(lambda event: ended.append(event.record.prompt) if event.kind == "ended" else None)
    prompts = ["a", "bad1", "b", "bad2", "c"]
    with pytest.raises(Failed, match="bad1 is bad"):
        await agent.abatch(prompts)
    assert sorted(ended) == sorted(prompts)


@pytest.mark.parametrize("wrong", ["one text", Prompt("one"), [3]])
async def test_what_is_no_batch(pool: Pool, wrong: Any) -> None:
    with pytest.raises(TypeError, match="prompt"):
        await tool("shout").abatch(wrong)


async def test_a_width_that_is_negative(pool: Pool) -> None:
    with pytest.raises(ValueError, match="at_once cannot be -1"):
        await tool("shout").abatch(["a"], at_once=-1)
    with pytest.raises(ValueError, match="at_once cannot be -1"):
        tool("shout").amap(["a"], at_once=-1)


def most_at_once(file: Path) -> int:
    """Return how many turns overlapped, from what the workers noted."""
    edges = []
    for line in file.read_text().splitlines():
        _, began, ended = line.split()
        edges += [(float(began), 1), (float(ended), -1)]
    return max(itertools.accumulate(step for _, step in sorted(edges)))


@pytest.mark.parametrize(("name", "at_once"), [("anote", 3), ("anote", 8), ("note", 1)])
async def test_never_more_at_once(pool: Pool, tmp_path: Path, name: str, at_once: int) -> None:
    file = tmp_path / "notes"
    prompts = [f"{file}|{number}|0.02" for number in range(8 * at_once)]
    await tool(name).abatch(prompts, at_once=at_once)
    assert most_at_once(file) == at_once


async def test_at_once_of_an_agent_bounds_all_of_its_turns(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    agent = agent_from_spec("cli=tool,model=tests.agents.functions:anote,at_once=2")
    async with anyio.create_task_group() as group:
        for batch in range(3):
            prompts = [f"{file}|{batch}{number}|0.02" for number in range(4)]
            group.start_soon(agent.abatch, prompts)
        for session in agent.batch_new(3):
            group.start_soon(session.aturn, f"{file}|s|0.02")
    assert most_at_once(file) == 2


# Answers as they come --------------------------------------------------------------------------


async def test_answers_as_they_come(pool: Pool) -> None:
    answers = [answer async for answer in tool("shout").amap(map(str, range(3000)), at_once=4)]
    assert answers == [str(number) for number in range(3000)]


async def test_reading_ahead_is_bounded(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WINDOW", 10)
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield str(taken)

    got = 0
    answers = tool("shout").amap(endless())
    async for _ in answers:
        got += 1
        assert taken <= got + 10
        if got == 50:
            break
    await answers.aclose()


async def test_a_failure_is_raised_in_its_place(pool: Pool) -> None:
    answers = tool("fail_on_bad").amap(["a", "b", "bad", "c"])
    assert [await anext(answers), await anext(answers)] == ["a", "b"]
    with pytest.raises(Failed, match="bad is bad"):
        await anext(answers)
    answers = tool("fail_on_bad").amap(["a", "bad", "c"], suppress=True)
    assert [answer async for answer in answers] == ["a", "", "c"]


async def test_leaving_the_loop_cancels_what_was_begun(pool: Pool, tmp_path: Path) -> None:
    agent = tool("ahold")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "go").touch()
    answers = agent.amap([f"{tmp_path}/done|first", f"{tmp_path}|second"])
    assert await anext(answers) == "first"
    await await_until((tmp_path / "second.began").exists)
    await answers.aclose()
    await await_until((tmp_path / "second.cancelled").exists)
    assert "0 turns in flight" in repr(agent)


# Stopping --------------------------------------------------------------------------------------


async def test_stopping_ends_all_turns(pool: Pool, tmp_path: Path) -> None:
    agent = tool("ahold")
    outcomes: list[BaseException] = []

    async def take() -> None:
        try:
            await agent.abatch(
                [f"{tmp_path}|{number}" for number in range(5)], at_once=2, suppress=True
            )
        except Stopped as error:
            outcomes.append(error)

    with running(pool) as run:
        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await await_until(lambda: len(list(tmp_path.glob("*.began"))) == 2)
            agent.stop("enough")
            agent.stop()
        assert [str(error) for error in outcomes] == ["enough"]
        assert agent.stopped
        with pytest.raises(Stopped, match="enough"):
            await agent.aturn("later", suppress=True)
        with pytest.raises(Stopped, match="enough"):
            await agent.new().aturn("later")
    await await_until(lambda: len(list(tmp_path.glob("*.cancelled"))) == 2)
    assert len(list(tmp_path.glob("*.began"))) == 2
    states = [record.state for record in run.records()]
    assert states == ["cancelled"] * 2 + ["not_run"] * 5
    assert all(record.cancel is None for record in run.records())
    assert [what for what, *_ in run.told].count("ended") == 7


async def test_stopping_from_another_thread(pool: Pool, tmp_path: Path) -> None:
    agent = tool("hold")

    async def stop() -> None:
        await await_until((tmp_path / "x.began").exists)
        await anyio.to_thread.run_sync(agent.stop)

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        with pytest.raises(Stopped):
            await agent.aturn(f"{tmp_path}|x")


async def test_cancelling_cancels_the_turns(pool: Pool, tmp_path: Path) -> None:
    agent = tool("ahold")
    with running(pool) as run:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.aturn, f"{tmp_path}|1")
            group.start_soon(agent.new().aturn, f"{tmp_path}|2")
            group.start_soon(agent.abatch, [f"{tmp_path}|3", f"{tmp_path}|4"])
            await await_until(lambda: len(list(tmp_path.glob("*.began"))) == 4)
            group.cancel_scope.cancel()
    assert [record.state for record in run.records()] == ["cancelled"] * 4
    await await_until(lambda: len(list(tmp_path.glob("*.cancelled"))) == 4)
    assert "0 turns in flight" in repr(agent)


# Watching --------------------------------------------------------------------------------------


async def test_watching(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    agent = tool("talk")
    events: list[TurnEvent] = []

    def broken(event: TurnEvent) -> None:
        raise RuntimeError("broken watcher")

    with caplog.at_level(logging.ERROR, "hmz_mp"):
        unwatch_broken = agent.watch(broken)
        unwatch = agent.watch(events.append)
        assert await agent.aturn("look") == "look"
    assert [event.kind for event in events] == ["submitted", "began", "said", "ended"]
    assert events[2].event.fraction == 0.5  # type: ignore[attr-defined]
    assert caplog.text.count("RuntimeError: broken watcher") == 4
    unwatch()
    unwatch()
    unwatch_broken()
    await agent.aturn("look")
    assert len(events) == 4


async def test_a_run_is_told_of_every_turn(pool: Pool) -> None:
    agent = tool("talk")
    with running(pool) as run:
        await agent.aturn(Prompt("look", path="a.py"), cwd="/")
    assert [what for what, *_ in run.told] == ["submitted", "began", "said", "ended"]
    assert [state for *_, state in run.told if isinstance(state, str)] == [
        "queued",
        "running",
        "ok",
    ]
    (record,) = run.records()
    assert (record.item_id, record.path, record.prompt) == ("a.py", b"a.py", "look")
    assert (record.agent, record.agent_id) == (agent.spec, agent.id)
    assert (record.session, record.place, record.cwd) == (f"{agent.id}-1", 0, "/")
    assert (record.answer, record.error, record.attempts) == ("look", None, 1)
    assert record.output == "printed look\n"
    assert record.worker is not None
    assert record.seconds is not None
    assert record.began_at is not None
    assert record.ended_at is not None
    assert record.submitted_at <= record.began_at <= record.ended_at
    assert record.cancel is None


async def test_a_run_is_told_of_a_failure(pool: Pool) -> None:
    with running(pool) as run:
        await tool("fail_on_bad").aturn("bad", suppress=True)
    (record,) = run.records()
    assert (record.state, record.error_type) == ("failed", "Odd")
    assert record.error == "Odd: bad is bad"
    assert record.detail is not None
    assert "fail_on_bad" in record.detail


async def test_a_run_that_takes_no_new_turns(pool: Pool) -> None:
    agent = tool("shout")
    events: list[TurnEvent] = []
    agent.watch(events.append)
    with running(pool, refusing=True) as run:
        with pytest.raises(Stopped, match="no new turns"):
            await agent.aturn("look", suppress=True)
        with pytest.raises(Stopped, match="no new turns"):
            await agent.abatch(["a", "b"], suppress=True)
    assert run.told == []
    assert [event.record.state for event in events] == ["not_run"] * 3


async def test_a_run_that_raises_leaves_nobody_waiting(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the disk is full")

    with running(pool) as run, caplog.at_level(logging.ERROR, "hmz_mp"):
        run.began = run.said = run.ended = broken  # type: ignore[method-assign,assignment]
        assert await tool("talk").aturn("look") == "look"
    assert caplog.text.count("RuntimeError: the disk is full") == 3


async def test_a_turn_that_is_shipped_as_it_is_submitted_begins_for_its_run(pool: Pool) -> None:
    agent = tool("shout")
    for _ in range(3):  # by the second a worker waits, and has the turn before anybody knows of it
        with running(pool) as run:
            await agent.aturn("x")
        assert [what for what, *_ in run.told] == ["submitted", "began", "ended"]
        assert run.told[1][2] == "running"
        assert run.told[1][1].worker is not None


async def test_a_run_that_cancels_a_record(pool: Pool, tmp_path: Path) -> None:
    agent = tool("ahold")
    with running(pool) as run:
        async with anyio.create_task_group() as group:

            async def halt() -> None:
                await await_until((tmp_path / "1.began").exists)
                for record in run.records():
                    assert record.cancel is not None
                    record.cancel()

            group.start_soon(halt)
            with pytest.raises(Stopped, match="the run was stopped"):
                await agent.abatch([f"{tmp_path}|1", f"{tmp_path}|2"], at_once=1, suppress=True)
    assert [record.state for record in run.records()] == ["cancelled", "not_run"]


# All of it -------------------------------------------------------------------------------------


async def test_ten_thousand_prompts(pool: Pool) -> None:
    prompts = [Prompt("look", item_id=str(number)) for number in range(10_000)]
    assert await tool("item").abatch(prompts) == [prompt.item_id for prompt in prompts]


async def test_many_programs_at_once(pool: Pool) -> None:
    prompts = [str(number) for number in range(100)]
    assert await agent_from_spec("sh/cat").abatch(prompts) == prompts


async def test_file_names_can_be_any_bytes(pool: Pool) -> None:
    names = [
        b"-rf",
        b"a b",
        b"new\nline",
        b"q'\"",
        b"[x]",
        "\U0001f4a9".encode(),
        b"bad\xff",
        b"{path}",
    ]
    prompts = [Prompt("look", path=name) for name in names]
    answers = await agent_from_spec("sh/printf %s {path}").abatch(prompts)
    assert [os.fsencode(answer) for answer in answers] == [b"./-rf", *names[1:]]
    agent = tool_of_outlines()
    with pytest.raises(Failed, match="FileNotFoundError"):
        await agent.abatch(prompts)


async def test_the_outline_of_a_file(pool: Pool, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "bad") + b"\xff.py"
    Path(os.fsdecode(path)).write_text("def f(x):\n    return x if x else 0\n")
    (found,) = await tool_of_outlines().abatch([Prompt("outline", path=path)], schema=Outline)
    assert os.fsencode(found.path) == path
    assert found.most_complex == Function("f", 1, 2, complexity=2)


def tool_of_outlines() -> Agent:
    return agent_from_spec("tool/hmz_mp.toolbox.python:outline")


# What it is ------------------------------------------------------------------------------------


async def test_what_an_agent_is(pool: Pool) -> None:
    agent = agent_from_spec("sh/cat", name="reader")
    assert isinstance(agent, AgentBase)
    assert AgentBase is Agent
    assert agent.id == "reader"
    assert repr(agent) == "<Agent reader sh/cat 0 turns in flight>"
    assert agent.waits
    assert not tool("shout").waits
    assert tool("shout").id != tool("shout").id
    assert agent.spent == Spent(0, 0, 0.0)
    agent.stop()
    assert repr(agent) == "<Agent reader sh/cat stopped>"


def test_a_spec_to_correct() -> None:
    with pytest.raises(BadInput, match="this version has no gemini/"):
        agent_from_spec("gemini/pro")
