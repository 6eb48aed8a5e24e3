from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from hmz_mp_worker import state
from hmz_mp_worker.backends import Request
from hmz_mp_worker.backends.driving import drive
from hmz_mp_worker.backends.protocol import (
    AgentFailed,
    Ask,
    Did,
    Event,
    Failed,
    Opened,
    Result,
    Text,
    read_agent_event,
)


class Number(msgspec.Struct):
    n: int


class Scripted:
    """A conversation whose turns are given."""

    def __init__(self, *turns: list[Event]) -> None:
        self.turns = list(turns)
        self.asked: list[Ask] = []
        self.heard: list[str] = []
        self.left_early = False

    async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
        self.asked.append(ask)
        try:
            for event in self.turns.pop(0):
                await asyncio.sleep(0)
                yield event
        except GeneratorExit:
            self.left_early = True
            raise

    def interject(self, text: str) -> None:
        self.heard.append(text)

    async def close(self) -> None: ...


class Speaker:
    def __init__(self) -> None:
        self.said: list[tuple[str, bytes]] = []

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        self.said.append((kind, data))


def driven(conversation: Scripted, request: Request, told: bytes = b"") -> tuple[str, Speaker]:
    speaker = Speaker()
    turn = state.RunningTurn(1, 0, {}, speaker)
    if told:
        turn.tell(told)

    async def body() -> str:
        state.task_turn.set(turn)
        return await drive(conversation, request)

    return asyncio.run(body()), speaker


def test_an_answer_and_what_is_said_on_the_way() -> None:
    texts = Text("not asked "), Text("for"), Text("x" * 400), Text("y")
    script = Scripted([Opened("id"), *texts, Did("Bash ls"), Text("end"), Result("done")])
    answer, speaker = driven(script, Request("go"))
    assert answer == "done"
    said = [read_agent_event(data) for kind, data in speaker.said if kind == "agent"]
    assert said == [Opened("id"), Did("Bash ls")]
    # In larger pieces than it came, and in its place.
    assert [data if kind == "text" else kind for kind, data in speaker.said] == [
        "agent",
        b"not asked for" + b"x" * 400,
        b"y",
        "agent",
        b"end",
    ]
    assert script.asked == [Ask("go")]


def test_a_stream() -> None:
    script = Scripted([Text("a \N{SNOWMAN}"), Text("b"), Result("a b")])
    _, speaker = driven(script, Request("go", stream=True))
    assert speaker.said == [("text", "a \N{SNOWMAN}".encode()), ("text", b"b")]


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ([Text("a"), Text("b")], "ab"),
        ([Text("a")], "ab"),  # the rest was not said yet
        ([], "ab"),
        ([Text("see:"), Did("ls"), Did("ls"), Text("a"), Text("b")], "see:\n\nab"),
        ([Did("ls"), Text("ab\n")], "ab\n"),
        ([Text("see:"), Text("ab")], "see:ab"),  # two messages, nothing in between
        ([Text("see:"), Did("ls")], "see:\n\nab"),
        ([Text("ab"), Did("ls")], "ab"),
    ],
)
def test_all_that_was_streamed_is_in_the_answer(events: list[Event], answer: str) -> None:
    given, speaker = driven(Scripted([*events, Result("ab")]), Request("go", stream=True))
    assert given == answer
    said = b"".join(data for kind, data in speaker.said if kind == "text").decode()
    assert given.startswith(said)
    plain, _ = driven(Scripted([*events, Result("ab")]), Request("go"))
    assert plain == "ab"


def test_a_failure_keeps_all_of_itself() -> None:
    script = Scripted([Failed("limited", "slow down", 3.0, 1, "half", "tail")])
    with pytest.raises(AgentFailed) as caught:
        driven(script, Request("go"))
    assert caught.value.args == ("limited", "slow down", 3.0, 1, "half", "tail")


def test_what_the_turn_is_told_reaches_the_conversation_also_from_before() -> None:
    script = Scripted([Result("done")])
    driven(script, Request("go"), told="bad \udcff".encode("utf-8", "surrogateescape"))
    assert script.heard == ["bad \udcff"]


def test_what_it_is_told_once_it_has_ended_reaches_nobody() -> None:
    script = Scripted([Result("done")])
    turn = state.RunningTurn(1, 0, {}, Speaker())

    async def body() -> None:
        state.task_turn.set(turn)
        await drive(script, Request("go"))
        turn.tell(b"too late")

    asyncio.run(body())
    assert script.heard == []


def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    script = Scripted([Result("three")], [Result('{"n": "3"}')], [Result('```json\n{"n": 3}\n```')])
    answer, _ = driven(script, Request("go", schema=Number, stream=True))
    assert answer == '{"n": 3}'
    first, second, third = script.asked
    assert '"n"' in first.schema
    assert not first.again
    assert not first.stream  # pieces of JSON are of no use to anybody
    assert second.again
    assert second.schema == first.schema
    assert "does not fit Number" in second.prompt
    assert "Expected `int`" in third.prompt


def test_it_is_asked_for_again_at_most_twice() -> None:
    wrong: list[Event] = [Result('{"n": "x"}')]
    script = Scripted(wrong, wrong, wrong, wrong)
    with pytest.raises(AgentFailed, match="schema: the answer does not fit Number") as caught:
        driven(script, Request("go", schema=Number))
    assert caught.value.answer == '{"n": "x"}'
    assert len(script.asked) == 3


def test_no_value_at_all_is_asked_for_again_too() -> None:
    script = Scripted([Failed("schema", "no value")], [Result('{"n": 1}')])
    assert driven(script, Request("go", schema=Number))[0] == '{"n": 1}'


def test_another_failure_is_not_asked_for_again() -> None:
    script = Scripted([Failed("overloaded", "busy")])
    with pytest.raises(AgentFailed, match="overloaded: busy"):
        driven(script, Request("go", schema=Number))


def test_cancelling_leaves_the_turn() -> None:
    class Endless(Scripted):
        async def turn(self, ask: Ask) -> AsyncGenerator[Event, None]:
            try:
                await asyncio.get_running_loop().create_future()
                yield Result("never")
            finally:
                self.left_early = True

    script = Endless()

    async def body() -> None:
        task = asyncio.ensure_future(drive(script, Request("go")))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())
    assert script.left_early
