"""Tool calls as models' services have them, and results in the shape that each wants back.

Reads OpenAI's chat completions and responses and Anthropic's messages, SDK objects or dicts.
Imported by ``dispatch``; it knows nothing of tools or how calls are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["Shape", "ToolCall", "read_calls", "shaped"]

Shape = Literal["chat", "responses", "anthropic"]


class ToolCall(NamedTuple):
    """One call: ``arguments`` are as the model gave them, an object or text that should be JSON.

    A ``free`` one's are a text that is not meant to be JSON.
    """

    id: str
    name: str
    arguments: Any
    shape: Shape
    free: bool = False


def read_calls(calls: Iterable[Any] | None) -> list[ToolCall]:
    """Return the calls of one model turn, in order; ``None`` has none.

    Takes ``message.tool_calls``, ``response.output`` or ``message.content``; what else is among
    the latter two, such as texts, is passed over. Raises `TypeError` for what is none of these.
    """
    if calls is None:
        return []
    if isinstance(calls, (str, bytes, Mapping)):
        raise TypeError(
            f"tool calls are a list, as in reply.tool_calls, not a {type(calls).__name__}"
        )
    return [call for one in calls if (call := _read(one)) is not None]


def _read(one: Any) -> ToolCall | None:
    kind = _get(one, "type")
    if kind in _READERS:
        return _READERS[kind](one)
    if isinstance(kind, str) and kind:
        return None
    if _get(one, "function") is not None:
        return _of_chat(one)
    if _get(one, "name") is not None:
        if _get(one, "call_id") is not None:
            return _of_responses(one)
        has_input = _get(one, "input") is not None
        return _of_anthropic(one) if has_input else _plain(one)
    raise TypeError(f"this is no tool call of OpenAI's or Anthropic's: a {type(one).__name__}")


def _get(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, Mapping) else getattr(one, name, None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _of_chat(one: Any) -> ToolCall:
    function = _get(one, "function")
    name, arguments = _text(_get(function, "name")), _get(function, "arguments")
    return ToolCall(_text(_get(one, "id")), name, arguments, "chat")


def _custom_of_chat(one: Any) -> ToolCall:
    custom = _get(one, "custom")
    name, text = _text(_get(custom, "name")), _get(custom, "input")
    return ToolCall(_text(_get(one, "id")), name, text, "chat", free=True)


def _of_responses(one: Any) -> ToolCall:
    name, arguments = _text(_get(one, "name")), _get(one, "arguments")
    return ToolCall(_text(_get(one, "call_id")), name, arguments, "responses")


def _custom_of_responses(one: Any) -> ToolCall:
    name, text = _text(_get(one, "name")), _get(one, "input")
    return ToolCall(_text(_get(one, "call_id")), name, text, "responses", free=True)


def _of_anthropic(one: Any) -> ToolCall:
    return ToolCall(
        _text(_get(one, "id")), _text(_get(one, "name")), _get(one, "input"), "anthropic"
    )


def _plain(one: Any) -> ToolCall:
    name, arguments = _text(_get(one, "name")), _get(one, "arguments")
    return ToolCall(_text(_get(one, "id")), name, arguments, "chat")


_READERS: dict[str, Callable[[Any], ToolCall]] = {
    "function": _of_chat,
    "custom": _custom_of_chat,
    "function_call": _of_responses,
    "custom_tool_call": _custom_of_responses,
    "tool_use": _of_anthropic,
}


def shaped(call: ToolCall, text: str, *, is_error: bool) -> dict[str, Any]:
    """Return a result as its service wants it back.

    OpenAI's have no field for errors, so there the text itself says that it is one.
    """
    if call.shape == "chat":
        return {"role": "tool", "tool_call_id": call.id, "content": text}
    if call.shape == "responses":
        kind = "custom_tool_call_output" if call.free else "function_call_output"
        return {"type": kind, "call_id": call.id, "output": text}
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": text}
    return {**result, "is_error": True} if is_error else result
