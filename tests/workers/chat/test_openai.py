"""What servers that are only compatible leave out of their streams."""

from __future__ import annotations

from types import SimpleNamespace as Some
from typing import Any

from hmz_mp_worker.chat import Call, Reply, Settings, User
from hmz_mp_worker.chat.messages import Request
from hmz_mp_worker.chat.openai import parameters, reader

SETTINGS = Settings("openai", "tiny")


def heard(*events: Any) -> Reply:
    one = reader(SETTINGS)
    for event in events:
        one.take(event)
    return one.reply()


def chunk(finish: str | None = None, **delta: Any) -> Some:
    return Some(choices=[Some(delta=Some(**delta), finish_reason=finish)])


def test_only_what_was_asked_for_is_sent() -> None:
    assert set(parameters(SETTINGS, Request((User("hello"),)))) == {
        *("model", "messages", "stream", "stream_options")
    }


def test_fields_that_are_missing() -> None:
    reply = heard(Some(), Some(choices=None), Some(choices=[Some(delta=None)]), chunk("stop"))
    assert (reply.text, reply.failure, reply.usage) == ("", None, None)
    assert reply.own == {"role": "assistant", "content": ""}


def test_calls_without_numbers_or_ids() -> None:
    one = Some(function=Some(name="look", arguments="{}"))
    two = Some(index=None, id="x", function=Some(name="leave", arguments=None))
    reply = heard(chunk(tool_calls=[one, two]), chunk("tool_calls"))
    assert reply.calls == (Call("call_0", "look", "{}"), Call("x", "leave", ""))


def test_counts_that_are_none() -> None:
    told = Some(prompt_tokens=3, completion_tokens=None, prompt_tokens_details=None)
    reply = heard(chunk("stop", content="a"), Some(choices=[], usage=told))
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 0)


def test_an_end_that_never_came() -> None:
    reply = heard(chunk(content="half"))
    assert reply.failure is not None
    assert (reply.failure.kind, reply.text) == ("overloaded", "half")


def test_content_that_was_withheld() -> None:
    reply = heard(chunk("content_filter"))
    assert reply.failure is not None
    assert reply.failure.kind == "refused"
