from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hmz_mp.dispatch.calls import ToolCall, read_calls, shaped


def objects(value: Any) -> Any:
    """Make objects with attributes, as SDKs have them, of dicts."""
    if isinstance(value, dict) and "type" in value:
        keep = ("input",)  # Anthropic's objects have a dict there
        return SimpleNamespace(
            **{key: one if key in keep else objects(one) for key, one in value.items()}
        )
    if isinstance(value, dict):
        return SimpleNamespace(**value)
    return value


CHAT = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "f", "input": "free text"}}
RESPONSE = {"type": "function_call", "id": "fc", "call_id": "c3", "name": "f", "arguments": "{}"}
FREE = {"type": "custom_tool_call", "id": "ct", "call_id": "c4", "name": "f", "input": "free"}
USE = {"type": "tool_use", "id": "c5", "name": "f", "input": {"a": 1}}


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize(
    ("given", "call", "result"),
    [
        (
            CHAT,
            ToolCall("c1", "f", '{"a": 1}', "chat"),
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
        ),
        (
            CUSTOM,
            ToolCall("c2", "f", "free text", "chat", True),
            {"role": "tool", "tool_call_id": "c2", "content": "x"},
        ),
        (
            RESPONSE,
            ToolCall("c3", "f", "{}", "responses"),
            {"type": "function_call_output", "call_id": "c3", "output": "x"},
        ),
        (
            FREE,
            ToolCall("c4", "f", "free", "responses", True),
            {"type": "custom_tool_call_output", "call_id": "c4", "output": "x"},
        ),
        (
            USE,
            ToolCall("c5", "f", {"a": 1}, "anthropic"),
            {"type": "tool_result", "tool_use_id": "c5", "content": "x"},
        ),
    ],
)
def test_calls_of_each_service(form: Any, given: Any, call: ToolCall, result: Any) -> None:
    (read,) = read_calls([form(given)])
    assert read == call
    assert shaped(read, "x", is_error=False) == result
    error = {**result, "is_error": True} if call.shape == "anthropic" else result
    assert shaped(read, "x", is_error=True) == error


def test_what_is_no_call_is_passed_over() -> None:
    text = {"type": "text", "text": "I will look."}
    thought = SimpleNamespace(type="reasoning", summary=[])
    found = read_calls([text, USE, thought, {"type": "message", "content": []}, RESPONSE])
    assert [one.id for one in found] == ["c5", "c3"]
    assert read_calls(None) == read_calls([]) == []


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({"id": "a", "function": {"name": "f", "arguments": "{}"}}, "chat"),
        ({"call_id": "a", "name": "f", "arguments": "{}"}, "responses"),
        ({"id": "a", "name": "f", "input": {}}, "anthropic"),
        ({"id": "a", "name": "f", "arguments": "{}"}, "chat"),
    ],
)
def test_calls_that_do_not_say_of_which_kind_they_are(given: Any, shape: str) -> None:
    (call,) = read_calls([given])
    assert (call.id, call.name, call.shape) == ("a", "f", shape)


def test_malformed_calls_are_calls_all_the_same() -> None:
    found = read_calls([{"type": "function"}, {"type": "tool_use", "id": 3, "name": None}])
    assert found == [ToolCall("", "", None, "chat"), ToolCall("", "", None, "anthropic")]


@pytest.mark.parametrize("given", [3, None, {}, object(), "text"])
def test_what_is_nothing_of_the_kind(given: Any) -> None:
    with pytest.raises(TypeError, match="no tool call"):
        read_calls([given])


@pytest.mark.parametrize("given", ["text", b"", USE])
def test_one_call_is_no_list(given: Any) -> None:
    with pytest.raises(TypeError, match="are a list"):
        read_calls(given)
