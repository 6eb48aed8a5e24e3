"""A scripted server of the Anthropic Messages API, streaming and whole."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.model_servers.script import Step, calls_of, pieces
from tests.model_servers.serving import Handler, next_id

__all__ = ["Anthropic"]

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
# What Claude Code itself puts into the user's messages, the last ones after a /clear.
_INJECTED = re.compile(
    r"<(system-reminder|local-command-caveat|local-command-stdout|command-name|command-message"
    r"|command-args)>.*?</\1>",
    re.DOTALL,
)
_CWD = re.compile(r"[Ww]orking directory: (\S+)")


class Anthropic(Handler):
    """Answers ``/v1/messages``."""

    def answer(self, path: str, raw: bytes, body: dict[str, Any]) -> None:
        if path.endswith("/count_tokens"):
            self.reply(200, {"input_tokens": max(1, len(raw) // 4)})
        elif not path.endswith("/v1/messages"):
            self.reply(404, self.error({"status": 404, "message": path}))
        else:
            prompt, done = newest_prompt(body.get("messages", []))
            step = self.picked(prompt, done, _cwd_of(body), body)
            if step is not None:
                self._send(step, body, len(raw) // 4)

    def error(self, step: Step) -> dict[str, Any]:
        kind = _KINDS.get(step["status"], "api_error")
        message = step.get("message", f"scripted {kind}")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def _send(self, step: Step, body: dict[str, Any], size: int) -> None:
        content = [{"type": "text", "text": step["text"]}] if step.get("text") else []
        for call in calls_of(step):
            given = call.get("arguments", call.get("input", {}))
            used = {"id": next_id("toolu"), "name": call["tool"], "input": given}
            content.append({"type": "tool_use", **used})
        given = step.get("usage", {})
        usage = {
            "input_tokens": given.get("input", max(1, size)),
            "cache_creation_input_tokens": given.get("cache_write", 0),
            "cache_read_input_tokens": given.get("cache_read", 0),
            "output_tokens": given.get("output", max(1, len(json.dumps(content)) // 4)),
        }
        uses_tool = bool(content) and content[-1]["type"] == "tool_use"
        message = {
            "id": next_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": content,
            "stop_reason": step.get("stop_reason") or ("tool_use" if uses_tool else "end_turn"),
            "stop_sequence": None,
            "usage": usage,
        }
        if body.get("stream"):
            self._stream(message, step)
        else:
            self.reply(200, message)

    def _stream(self, message: dict[str, Any], step: Step) -> None:
        self.start_events()
        usage = message["usage"]
        begun = {**message, "content": [], "stop_reason": None}
        self.event("message_start", message={**begun, "usage": {**usage, "output_tokens": 1}})
        for index, block in enumerate(message["content"]):
            is_text = block["type"] == "text"
            empty: dict[str, Any] = {"text": ""} if is_text else {"input": {}}
            self.event("content_block_start", index=index, content_block={**block, **empty})
            if not is_text:
                written = block["input"]
                written = written if isinstance(written, str) else json.dumps(written)
                for half in (written[:3], written[3:]):
                    delta = {"type": "input_json_delta", "partial_json": half}
                    self.event("content_block_delta", index=index, delta=delta)
            elif not self._stream_text(index, block["text"], step):
                return
            self.event("content_block_stop", index=index)
        ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        ended |= {"stop_details": step["stop_details"]} if "stop_details" in step else {}
        self.event("message_delta", delta=ended, usage=usage)
        self.event("message_stop")

    def _stream_text(self, index: int, text: str, step: Step) -> bool:
        whole = pieces(text)
        for number, piece in enumerate(whole):
            if number * 2 >= len(whole):
                if "stream_error" in step:
                    self.event("error", error=step["stream_error"])
                if "stream_error" in step or step.get("stream_cut"):
                    return False
            delta = {"type": "text_delta", "text": piece}
            self.event("content_block_delta", index=index, delta=delta)
            time.sleep(step.get("word_s", 0))
        return True


def newest_prompt(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """Return the newest prompt, and how many of the model's messages follow it."""
    done = 0
    for message in reversed(messages):
        if text := _own_words(message):
            return text, done
        done += message.get("role") == "assistant"
    return "", done


def _own_words(message: dict[str, Any]) -> str:
    """Return what the user said: nothing, in a message that only brings a tool's result."""
    if message.get("role") != "user":
        return ""
    content = message.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if any(block.get("type") == "tool_result" for block in blocks):
        return ""
    text = "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text")
    return _INJECTED.sub("", text).strip()


def _cwd_of(body: dict[str, Any]) -> str:
    match = _CWD.search(json.dumps([body.get("system", ""), body.get("messages", [])]))
    return match[1].partition("\\n")[0].rstrip('"') if match else ""
