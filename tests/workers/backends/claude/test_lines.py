from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hmz_mp_worker.backends.claude.lines import TurnReader, read_line
from hmz_mp_worker.backends.protocol import (
    Did,
    Event,
    Failed,
    Opened,
    Result,
    Spent,
    Text,
    Usage,
)

USED = {
    "opus": {
        "inputTokens": 100,
        "outputTokens": 7,
        "cacheReadInputTokens": 20,
        "cacheCreationInputTokens": 3,
        "costUSD": 0.5,
    }
}


def reader(**settings: Any) -> TurnReader:
    return TurnReader({}, **{"schema": False, "partial": False, **settings})


def take(turn: TurnReader, kind: str, **fields: Any) -> list[Event]:
    line = read_line(json.dumps({"type": kind, **fields}).encode())
    assert line is not None
    return turn.take(line)


def result(turn: TurnReader, **fields: Any) -> Event:
    whole = {"subtype": "success", "is_error": False, "result": "done", **fields}
    return take(turn, "result", **whole)[-1]


def failed(turn: TurnReader, **fields: Any) -> Failed:
    end = result(turn, **fields)
    assert isinstance(end, Failed)
    return end


# Reading a line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", [b"Warning: no", b"[1]", b"3", b'{"no": "type"}', b'{"type": 3}', b"\xff\xfe", b"{"]
)
def test_what_is_no_line_of_the_protocol(line: bytes) -> None:
    assert read_line(line) is None


def test_half_of_a_surrogate_pair() -> None:
    line = read_line(b'{"type": "result", "result": "a \\ud83d b"}')
    assert line is not None
    assert line.result == "a ? b"


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    line = read_line(data)
    if line is not None:
        reader().take(line)


words = st.sampled_from(["", "a", "init", "error", "\N{SNOWMAN}"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words | st.floats(-9, 9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
KINDS = ["system", "user", "assistant", "stream_event", "rate_limit_event", "result", "other"]
FIELDS = [
    *("subtype", "session_id", "uuid", "isReplay", "message", "event", "structured_output"),
    *("result", "is_error", "api_error_status", "terminal_reason", "errors", "tasks"),
    *("permission_denials", "modelUsage", "model_usage_since_last_result", "error_status"),
    *("retry_delay_ms", "rate_limit_info", "parent_tool_use_id", "stop_reason"),
]


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_value_of_a_field_is_too_strange(
    kind: str, fields: dict[str, Any], schema: bool
) -> None:
    events = take(reader(schema=schema), kind, **fields)
    assert [e for e in events if isinstance(e, (Result, Failed))] == events[-1:] or kind != "result"


# A turn ----------------------------------------------------------------------------------------


def test_a_turn() -> None:
    turn = reader()
    assert take(turn, "system", subtype="init", session_id="one") == [Opened("one")]
    assert take(turn, "system", subtype="init", session_id="one") == []
    content = [
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "name": "Read", "input": {"file_path": "a\nb.py"}},
        {"type": "thinking", "thinking": "hm"},
        "odd",
    ]
    events = take(turn, "assistant", message={"content": content})
    assert events == [Text("I will look."), Did("Read a b.py")]
    assert take(turn, "user", message={"content": []}) == []
    assert take(turn, "result", result="done", is_error=False) == [Result("done")]
    assert turn.conversation == "one"


def test_pieces_come_instead_of_whole_texts() -> None:
    turn = reader(partial=True)
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "pie"}}
    assert take(turn, "stream_event", event=delta) == [Text("pie")]
    assert take(turn, "assistant", message={"content": [{"type": "text", "text": "pie"}]}) == []


def test_what_a_subagent_says_is_not_the_agents() -> None:
    turn = reader()
    content = [{"type": "text", "text": "x"}]
    assert take(turn, "assistant", parent_tool_use_id="t", message={"content": content}) == []


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"name": "Bash", "input": {"command": "ls\n -l"}}, "Bash ls -l"),
        ({"name": "Task", "input": {"other": 3}}, "Task"),
        ({"name": "Odd", "input": 3}, "Odd"),
        ({"name": "Bash", "input": {"command": "x" * 500}}, ("Bash " + "x" * 500)[:120]),
    ],
)
def test_what_a_tool_is_used_on(block: dict[str, Any], words: str) -> None:
    content = [{"type": "tool_use", **block}]
    assert take(reader(), "assistant", message={"content": content}) == [Did(words)]


# Its end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"permission_denials": [{"tool_name": "Edit"}]}, "denied", "Edit"),
        (
            {"is_error": True, "terminal_reason": "api_error", "api_error_status": 401},
            "unauthorised",
            "done",
        ),
        ({"is_error": True, "terminal_reason": "api_error"}, "overloaded", "done"),
        ({"is_error": True, "api_error_status": 400, "result": "bad"}, "refused", "bad"),
        ({"is_error": True, "terminal_reason": "prompt_too_long"}, "too_long", "done"),
        ({"stop_reason": "refusal", "result": "no"}, "refused", "no"),
        ({"is_error": True, "result": None, "errors": ["a", "b"]}, "refused", "a; b"),
        ({"subtype": "error_max_turns", "result": None}, "refused", "error_max_turns"),
        (
            {"subtype": "error_max_structured_output_retries", "result": None},
            "schema",
            "structured",
        ),
        (
            {"is_error": True, "result": None, "errors": ["No conversation found with x"]},
            "died",
            "No conversation",
        ),
    ],
)
def test_failures(fields: dict[str, Any], kind: str, says: str) -> None:
    end = failed(reader(), **fields)
    assert end.kind == kind
    assert says in end.reason


def test_success_by_subtype_alone_is_none() -> None:
    assert failed(reader(), subtype="success", is_error=True).kind == "refused"


def test_a_conversation_that_is_not_there() -> None:
    turn = reader()
    failed(turn, is_error=True, result=None, errors=["No conversation found with session ID: x"])
    assert turn.not_found


@pytest.mark.parametrize(
    ("status", "kind", "wait"),
    [(429, "limited", 28.124), (529, "overloaded", None), (401, "unauthorised", None)],
)
def test_a_retry_is_a_failure_already(status: int, kind: str, wait: float | None) -> None:
    turn = reader()
    take(
        turn,
        "system",
        subtype="api_retry",
        error_status=status,
        retry_delay_ms=28124,
        error="some words",
    )
    assert turn.failure is not None
    end = failed(turn, is_error=True, terminal_reason="aborted_streaming")
    assert end == turn.failure
    assert (end.kind, end.retry_after) == (kind, wait)
    assert f"status {status} (some words)" in end.reason


def test_a_connection_that_was_lost_may_be_tried_again() -> None:
    turn = reader()
    take(turn, "system", subtype="api_retry", error_status=None, error=None)
    assert turn.failure is None
    assert result(turn) == Result("done")


def test_a_quota_that_is_used_up() -> None:
    turn = reader()
    take(turn, "rate_limit_event", rate_limit_info={"status": "allowed"})
    assert turn.failure is None
    take(
        turn,
        "rate_limit_event",
        rate_limit_info={"status": "rejected", "rateLimitType": "five_hour"},
    )
    assert failed(turn).kind == "limited"


def test_a_value_of_the_schema() -> None:
    end = result(reader(schema=True), result="words", structured_output={"n": 3})
    assert isinstance(end, Result)
    assert json.loads(end.answer) == {"n": 3}
    assert failed(reader(schema=True), result="words").kind == "schema"


def test_what_is_left_running_is_noted() -> None:
    turn = reader()
    take(turn, "system", subtype="background_tasks_changed", tasks=[{"id": 1}])
    assert turn.background
    take(turn, "system", subtype="background_tasks_changed", tasks=[])
    assert not turn.background


# Interjections ---------------------------------------------------------------------------------


def test_a_turn_goes_on_until_what_was_said_is_heard() -> None:
    turn = reader()
    turn.unheard.add("late")
    first = take(turn, "result", result="too early", modelUsage=USED)
    assert [type(event) for event in first] == [Spent]
    take(turn, "user", isReplay=True, uuid="late", message={})
    assert result(turn, result="in time", modelUsage=USED) == Result("in time")


def test_an_error_ends_it_all_the_same() -> None:
    turn = reader()
    turn.unheard.add("never")
    assert failed(turn, is_error=True).kind == "refused"


# Usage -----------------------------------------------------------------------------------------

ONE = Usage("opus", 123, 7, 20, 0.5)


def doubled(counts: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {m: {name: 2 * n for name, n in one.items()} for m, one in counts.items()}


def test_usage_is_the_difference_to_what_was() -> None:
    turn = reader()
    assert take(turn, "result", modelUsage=USED)[0] == Spent((ONE,))
    later = TurnReader(turn.totals, schema=False, partial=False)
    assert take(later, "result", modelUsage=doubled(USED))[0] == Spent((ONE,))
    same = TurnReader(later.totals, schema=False, partial=False)
    assert [type(e) for e in take(same, "result", modelUsage=doubled(USED))] == [Result]


def test_what_the_program_says_of_the_turn_is_believed_first() -> None:
    turn = reader()  # of a program that has resumed a conversation, with totals from before
    events = take(turn, "result", modelUsage=doubled(USED), model_usage_since_last_result=USED)
    assert events[0] == Spent((ONE,))
    assert turn.totals["opus"].input_tokens == 246


def test_totals_that_begin_anew_count_as_nothing_negative() -> None:
    turn = TurnReader({"opus": Usage("opus", 500, 90, 0, 4.0)}, schema=False, partial=False)
    assert [type(e) for e in take(turn, "result", modelUsage=USED)] == [Result]
