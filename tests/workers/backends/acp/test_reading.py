from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends.acp.permissions import Rules
from hmz_mp_worker.backends.acp.reading import TurnReader, failure_of
from hmz_mp_worker.backends.acp.settings import Settings
from hmz_mp_worker.backends.protocol import Did, Event, Failed, Result, Spent, Text, Usage


@pytest.fixture
def reader(tmp_path: Path) -> TurnReader:
    return made(tmp_path)


def made(cwd: Path, **settings: Any) -> TurnReader:
    return TurnReader("model", Rules(Settings(("agent",), **settings), str(cwd)))


def piece(text: Any, **more: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


def tool(status: str | None = None, id: str = "t", **more: Any) -> dict[str, Any]:  # noqa: A002
    said = {"sessionUpdate": "tool_call_update", "toolCallId": id, **more}
    return said if status is None else {**said, "status": status}


def end(reader: TurnReader, reason: str = "end_turn", **more: Any) -> Event:
    return reader.end({"stopReason": reason, **more})[-1]


# Answers ---------------------------------------------------------------------------------------


def test_the_answer_is_the_last_message(reader: TurnReader) -> None:
    assert reader.take(piece("Let me ")) == [Text("Let me ")]
    reader.take(piece("see."))
    reader.take(tool("in_progress"))
    reader.take(piece("It "))
    reader.take(tool("completed"))  # what is said of it later is no break
    reader.take(piece("is."))
    assert end(reader) == Result("It is.")


def test_messages_by_their_ids(reader: TurnReader) -> None:
    for text, id in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")):  # noqa: A001
        reader.take(piece(text, messageId=id))
    assert end(reader) == Result("cd")


def test_an_answer_before_the_last_tool(reader: TurnReader) -> None:
    reader.take(piece("It is."))
    reader.take(tool("completed"))
    assert end(reader) == Result("It is.")


def test_nothing_is_an_answer_too(reader: TurnReader) -> None:
    assert end(reader) == Result("")


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}},
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hm"}},
        {"sessionUpdate": ["agent_message_chunk"]},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}},
        piece(3),
        piece(""),
        piece(None, _meta=3),
        piece("", _meta={"usage": [1]}),
    ],
)
def test_what_says_nothing(reader: TurnReader, update: dict[str, Any]) -> None:
    assert reader.take(update) == []
    assert end(reader) == Result("")


def test_texts_that_cannot_be_encoded(reader: TurnReader) -> None:
    assert reader.take(piece("a \udcff")) == [Text("a \\udcff")]
    assert reader.take(tool("in_progress", title="\ud800")) == [Did("other \\ud800")]


# Tools -----------------------------------------------------------------------------------------


def test_a_tool_is_told_once_it_is_known_what_it_is(reader: TurnReader) -> None:
    assert reader.take(tool("pending", kind="edit", title="write", locations=[])) == []
    said = tool("in_progress", title="write", locations=[{"path": "a.txt"}])
    assert reader.take(said) == [Did("edit write a.txt")]
    assert reader.take(tool("in_progress")) == []
    assert reader.take(tool("completed")) == []
    assert reader.take(tool("failed", id="u", kind="execute", title="ls")) == [Did("execute ls")]
    assert end(reader) == Result("")


@pytest.mark.parametrize(("status", "kind"), [("completed", "denied"), ("failed", "denied")])
def test_a_change_that_is_not_permitted_and_was_not_asked_about(
    tmp_path: Path, status: str, kind: str
) -> None:
    reader = made(tmp_path, permission="read-only")
    reader.take(tool(status, kind="edit", title="Write", locations=[{"path": "a.txt"}]))
    reader.take(tool(status))
    reader.take(piece("Done."))
    found = end(reader)
    assert isinstance(found, Failed)
    assert (found.kind, found.answer) == (kind, "Done.")
    assert found.reason.count("edit Write a.txt") == 1
    assert ("did not ask" in found.reason) == (status == "completed")


def test_what_may_be_done_without_a_question(reader: TurnReader) -> None:
    reader.take(tool("completed", id="1", kind="edit", title="Write", locations=[{"path": "a"}]))
    reader.take(tool("completed", id="2", kind="execute", title="ls"))
    reader.take(tool("failed", id="3", kind="execute", title="false"))
    assert end(reader) == Result("")


def test_questions(reader: TurnReader) -> None:
    reader.take(tool("pending", kind="edit", title="Write", locations=[{"path": "a"}]))
    assert reader.question({"toolCallId": "t", "status": "pending"}) == (True, [])
    assert reader.take(tool("completed")) == [Did("edit Write a")]
    assert end(reader) == Result("")
    assert reader.question({"toolCallId": "u", "kind": "execute", "title": "rm x"}) == (False, [])
    reader.take(tool("failed", id="u"))
    reader.take(piece("I could not."))
    found = end(reader)
    assert isinstance(found, Failed)
    assert found.kind == "denied"
    assert found.reason == "the agent was not permitted to use execute rm x"
    assert found.answer == "I could not."


def test_a_question_of_which_nothing_is_known(reader: TurnReader) -> None:
    assert reader.question({})[0] is False
    assert isinstance(end(reader), Failed)


def test_leaving_a_mode_is_refused_and_no_failure(reader: TurnReader) -> None:
    assert reader.question({"toolCallId": "t", "kind": "switch_mode"})[0] is False
    reader.take(piece("Here is the plan."))
    assert end(reader) == Result("Here is the plan.")


# Ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("refusal", "would not do it"),
        ("max_tokens", "cut off"),
        ("max_turn_requests", "more requests"),
        ("cancelled", "cancelled"),
        ("new_reason", "the turn stopped: new_reason"),
    ],
)
def test_stop_reasons(reader: TurnReader, reason: str, says: str) -> None:
    reader.take(piece("half"))
    found = end(reader, reason)
    assert isinstance(found, Failed)
    assert (found.kind, found.answer) == ("refused", "half")
    assert says in found.reason


def test_a_turn_that_ends_as_something_was_denied(reader: TurnReader) -> None:
    reader.question({"toolCallId": "t", "kind": "fetch"})
    found = end(reader, "cancelled")
    assert isinstance(found, Failed)
    assert found.kind == "denied"


def test_an_answer_without_a_reason(reader: TurnReader) -> None:
    found = reader.end({})[-1]
    assert isinstance(found, Failed)
    assert found.kind == "refused"


# Usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"inputTokens": 100, "outputTokens": 7, "totalTokens": 107}, Usage("model", 100, 7)),
        (  # OpenCode counts what came from a cache beside the rest
            {"inputTokens": 100, "outputTokens": 7, "totalTokens": 127, "cachedReadTokens": 20},
            Usage("model", 120, 7, 20),
        ),
        (  # Qwen Code counts it in
            {"inputTokens": 120, "outputTokens": 7, "totalTokens": 127, "cachedReadTokens": 20},
            Usage("model", 120, 7, 20),
        ),
        (
            {"inputTokens": 1, "outputTokens": 2, "thoughtTokens": 3, "totalTokens": 6},
            Usage("model", 1, 5),
        ),
    ],
)
def test_usage(reader: TurnReader, said: dict[str, Any], usage: Usage) -> None:
    answer = {"stopReason": "end_turn", "usage": said}
    assert reader.end(answer) == [Spent((usage,)), Result("")]


def test_usage_of_each_request_counts_once(reader: TurnReader) -> None:
    said = {"inputTokens": 10, "outputTokens": 1, "totalTokens": 11}
    for _ in range(2):
        assert reader.take(piece("", _meta={"usage": said})) == [Spent((Usage("model", 10, 1),))]
    total = {"inputTokens": 20, "outputTokens": 2, "totalTokens": 22}
    assert reader.end({"stopReason": "end_turn", "usage": total}) == [Result("")]


def test_usage_by_model(reader: TurnReader) -> None:
    one = {"model": "a", "token_count": {"input_tokens": 100, "output_tokens": 7}}
    odd = [3, {"model": "b"}, {"model": "c", "token_count": {"input_tokens": "x"}}]
    quota = {"token_count": {"input_tokens": 9}, "model_usage": [one, *odd]}
    answer = {"stopReason": "end_turn", "_meta": {"quota": quota}}
    assert reader.end(answer) == [Spent((Usage("a", 100, 7),)), Result("")]
    nothing: list[Any] = [None, 3, {}, {"model_usage": {}}]
    for said in nothing:
        assert reader.end({**answer, "_meta": {"quota": said}}) == [Result("")]


def test_money(reader: TurnReader, tmp_path: Path) -> None:
    def told(amount: Any, currency: str = "USD") -> dict[str, Any]:
        cost = {"amount": amount, "currency": currency}
        return {"sessionUpdate": "usage_update", "used": 9, "size": 99, "cost": cost}

    assert reader.take(told(1.5)) == []  # of how many turns, nobody knows
    assert reader.take(told(2)) == [Spent((Usage("model", cost_usd=0.5),))]
    assert reader.take(told(2)) == reader.take(told(9, "EUR")) == reader.take(told("x")) == []
    assert reader.take({"sessionUpdate": "usage_update", "used": 9}) == []
    assert reader.cost == 2.0
    new = TurnReader("model", Rules(Settings(("agent",)), str(tmp_path)), 0.0)
    assert new.take(told(0.25)) == [Spent((Usage("model", cost_usd=0.25),))]


@pytest.mark.parametrize("said", [None, 3, {}, {"inputTokens": "x"}, {"inputTokens": -1}])
def test_no_usage(reader: TurnReader, said: Any) -> None:
    assert reader.end({"stopReason": "end_turn", "usage": said}) == [Result("")]


# Errors ----------------------------------------------------------------------------------------

QWEN = '{code} {{"type":"error","error":{{"type":"some_error","message":"scripted"}}}}'


@pytest.mark.parametrize(
    ("code", "message", "data", "kind"),
    [
        (-32000, "Authentication required", None, "unauthorised"),
        # Qwen Code passes on what the service said, with its status first.
        (-32603, "Internal error", {"details": QWEN.format(code=400)}, "refused"),
        (-32603, "Internal error", {"details": QWEN.format(code=401)}, "unauthorised"),
        (-32603, "Internal error", {"details": QWEN.format(code=429)}, "limited"),
        (-32603, "Internal error", {"details": QWEN.format(code=529)}, "overloaded"),
        (-32603, "Internal error", {"details": "400 prompt is too long: 3 > 2"}, "too_long"),
        # Gemini CLI has the status as its code.
        (429, "Rate limit exceeded", None, "limited"),
        (500, "no", None, "overloaded"),
        (-32603, "Internal error", {"status": 503}, "overloaded"),
        (-32603, 'got {"error": {"code": 429, "message": "slow"}}', None, "limited"),
        (-32603, "request failed with status code 401", None, "unauthorised"),
        # OpenCode has its message alone.
        (-32603, "Internal error: scripted rate_limit_error", {"service": "session"}, "limited"),
        (-32603, "Internal error: invalid x-api-key", None, "unauthorised"),
        (-32603, "Internal error: Incorrect API key provided", None, "unauthorised"),
        (-32603, "Internal error: Overloaded", None, "overloaded"),
        (-32603, "Internal error: fetch failed", None, "overloaded"),
        (-32603, "Internal error: connect ECONNREFUSED 127.0.0.1:1", None, "overloaded"),
        (-32603, "Internal error: input is too long for the model", None, "too_long"),
        (-32603, "Internal error: scripted bad request", {"errorName": "APIError"}, "refused"),
        (-32603, "Internal error", None, "refused"),
        (-32602, "Invalid params: session not found", {"sessionId": "s"}, "refused"),
    ],
)
def test_errors(code: int, message: str, data: Any, kind: str) -> None:
    assert failure_of(code, message, data).kind == kind


def test_the_reason_is_what_the_program_says() -> None:
    assert failure_of(-32603, "Internal error: no", None).reason == "no"
    assert failure_of(-32603, "Internal error", {"details": "so it is"}).reason == "so it is"
    assert failure_of(-32603, "Internal error", "as a text").reason == "as a text"
    assert failure_of(-32603, "Internal error", None).reason == "Internal error"
    assert failure_of(-32603, "", None).reason == "it gave no reason"
    said = failure_of(-32000, "Authentication required", None, "Run `fake login`")
    assert said.reason == "Authentication required: Run `fake login`"
    json.dumps(failure_of(-1, "\udcff", None).reason).encode()
