"""A scripted server of OpenAI's Responses API and Chat Completions, streaming and whole."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.model_servers.script import Step, calls_of, pieces
from tests.model_servers.serving import Handler, next_id

__all__ = ["OpenAI"]

_CODES = {400: "invalid_request_error", 401: "invalid_api_key", 429: "rate_limit_exceeded"}
# What Codex itself puts into the user's messages.
_INJECTED = re.compile(
    r"^\s*(<(environment_context|user_instructions|permissions|INSTRUCTIONS|turn_aborted"
    r"|skills_instructions|recommended_plugins|system-reminder|collaboration_mode|personality)"
    r"|# AGENTS\.md)"
)
_CWD = re.compile(r"<cwd>(.*?)</cwd>")
_CALLS = {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}


class OpenAI(Handler):
    """Answers ``/responses`` and ``/chat/completions``.

    A step's ``custom`` instead of ``input`` is a free-form call, of the first only.
    """

    def answer(self, path: str, raw: bytes, body: dict[str, Any]) -> None:
        is_chat = path.endswith("/chat/completions")
        if not is_chat and not path.endswith("/responses"):
            self.reply(404, self.error({"status": 404, "message": path}))
            return
        given = body.get("messages" if is_chat else "input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        prompt, done = newest_prompt(items)
        cwd = _CWD.search(raw.decode(errors="replace"))
        step = self.picked(prompt, done, cwd[1] if cwd else "", body)
        if step is not None:
            (self._send_chat if is_chat else self._send)(step, body, len(raw) // 4)

    def error(self, step: Step) -> dict[str, Any]:
        code = step.get("kind") or _CODES.get(step["status"], "server_error")
        message = step.get("message", f"scripted {code}")
        return {"error": {"message": message, "type": code, "code": code}}

    def _send(self, step: Step, body: dict[str, Any], size: int) -> None:
        given = step.get("usage", {})
        read, written = given.get("input", max(1, size)), given.get("output", 5)
        response = {
            "id": next_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": body.get("model"),
            "status": "completed",
            "output": _output(step),
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": given.get("cache_read", 0)},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": given.get("reasoning", 0)},
                "total_tokens": read + written,
            },
        }
        if body.get("stream"):
            self._stream(response, step)
        else:
            self.reply(200, response)

    def _stream(self, response: dict[str, Any], step: Step) -> None:
        self.start_events()
        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        self.event("response.created", response=begun)
        for index, item in enumerate(response["output"]):
            is_text = item["type"] == "message"
            empty: dict[str, Any] = {"content": []} if is_text else {}
            begun = {**item, "status": "in_progress", **empty}
            self.event("response.output_item.added", output_index=index, item=begun)
            if is_text and not self._stream_text(index, item["id"], step):
                return
            self.event("response.output_item.done", output_index=index, item=item)
        self.event("response.completed", response=response)

    def _stream_text(self, index: int, item: str, step: Step) -> bool:
        whole = pieces(step["text"])
        for number, piece in enumerate(whole):
            if step.get("stream_cut") and number * 2 >= len(whole):
                return False
            place = {"item_id": item, "output_index": index, "content_index": 0}
            self.event("response.output_text.delta", delta=piece, **place)
            time.sleep(step.get("word_s", 0))
        return True

    def _send_chat(self, step: Step, body: dict[str, Any], size: int) -> None:
        given = step.get("usage", {})
        read, written = given.get("input", max(1, size)), given.get("output", 5)
        calls = [
            {"index": at, "id": next_id("call"), "type": "function", "function": _function(call)}
            for at, call in enumerate(calls_of(step))
        ]
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": given.get("cache_read", 0)},
        }
        finish = step.get("finish_reason") or ("tool_calls" if calls else "stop")
        common = {"id": next_id("chatcmpl"), "created": int(time.time()), "model": body["model"]}
        if body.get("stream"):
            self._stream_chat(
                step, calls, finish, {**common, "object": "chat.completion.chunk"}, usage
            )
            return
        message = {"role": "assistant", "content": step.get("text"), "refusal": step.get("refusal")}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        self.reply(
            200, {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
        )

    def _stream_chat(
        self,
        step: Step,
        calls: list[dict[str, Any]],
        finish: str,
        common: dict[str, Any],
        usage: dict[str, Any],
    ) -> None:
        def send(delta: dict[str, Any], reason: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            self.data({**common, "choices": [choice]})

        self.start_events()
        send({"role": "assistant", "content": ""})
        whole = pieces(step["text"]) if step.get("text") else []
        for number, piece in enumerate(whole):
            if number * 2 >= len(whole):
                if "stream_error" in step:
                    self.data({"error": step["stream_error"]})
                if "stream_error" in step or step.get("stream_cut"):
                    return
            send({"content": piece})
            time.sleep(step.get("word_s", 0))
        if step.get("refusal"):
            send({"refusal": step["refusal"]})
        for call in calls:
            arguments = call["function"]["arguments"]
            send({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]})
            for half in (arguments[:3], arguments[3:]):
                send({"tool_calls": [{"index": call["index"], "function": {"arguments": half}}]})
        send({}, finish)
        self.data({**common, "choices": [], "usage": usage})
        self.data("[DONE]")


def _function(call: Step) -> dict[str, str]:
    given = call.get("arguments")
    arguments = json.dumps(call.get("input", {})) if given is None else given
    return {"name": call["tool"], "arguments": arguments}


def _output(step: Step) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if step.get("text"):
        text = {"type": "output_text", "text": step["text"], "annotations": []}
        message = {"id": next_id("msg"), "role": "assistant", "status": "completed"}
        output.append({"type": "message", **message, "content": [text]})
    for call in calls_of(step):
        one = {
            "id": next_id("fc"),
            "call_id": next_id("call"),
            "name": call["tool"],
            "status": "completed",
        }
        if "custom" in call:
            output.append({"type": "custom_tool_call", "input": call["custom"], **one})
        else:
            arguments = json.dumps(call.get("input", {}))
            output.append({"type": "function_call", "arguments": arguments, **one})
    return output


def newest_prompt(items: list[dict[str, Any]]) -> tuple[str, int]:
    """Return the newest prompt, and how often the model has answered since."""
    turns, in_run = 0, False
    for item in reversed(items):
        if item.get("role") == "user" and (text := _own_words(item.get("content"))):
            return text, turns
        mine = item.get("role") == "assistant" or item.get("type") in _CALLS
        turns += mine and not in_run
        in_run = mine
    return "", turns


def _own_words(content: Any) -> str:
    parts = [{"text": content}] if isinstance(content, str) else content or []
    texts = [part.get("text", "") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if text and not _INJECTED.match(text)).strip()
