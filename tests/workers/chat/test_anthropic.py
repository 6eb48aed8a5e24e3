from __future__ import annotations

from types import SimpleNamespace as Some
from typing import Any

import pytest

from hmz_mp_worker.chat import Call, Reply, Settings, User
from hmz_mp_worker.chat.anthropic import MAX_TOKENS, parameters, reader
from hmz_mp_worker.chat.messages import Request

SETTINGS = Settings("anthropic", "tiny")


def heard(*events: Any) -> Reply:
    one = reader(SETTINGS)
    for event in events:
        one.take(event)
    return one.reply()


def block(**fields: Any) -> Some:
    begun = Some(to_dict=lambda: dict(fields), **fields)
    return Some(type="content_block_start", content_block=begun)


def delta(kind: str, **fields: Any) -> Some:
    return Some(type="content_block_delta", delta=Some(type=kind, **fields))


def end(reason: str) -> list[Some]:
    told = Some(stop_reason=reason)
    return [Some(type="message_delta", delta=told, usage=Some()), Some(type="message_stop")]


def test_a_number_of_tokens_is_always_sent() -> None:
    assert parameters(SETTINGS, Request((User("hello"),)))["max_tokens"] == MAX_TOKENS


def test_what_will_be_sent_again_is_cached() -> None:
    said = (User("hello"),)
    asked = parameters(SETTINGS, Request(said, goes_on=True))
    assert asked["extra_body"] == {"cache_control": {"type": "ephemeral"}}
    elsewhere = Settings("anthropic", "tiny", base_url="http://127.0.0.1:1")  # may not know it
    assert "extra_body" not in parameters(elsewhere, Request(said, goes_on=True))


def test_thoughts_are_kept_for_the_service_and_are_no_part_of_the_answer() -> None:
    reply = heard(
        block(type="thinking", thinking="", signature=""),
        delta("thinking_delta", thinking="Hm"),
        delta("thinking_delta", thinking="."),
        delta("signature_delta", signature="abc"),
        block(type="text", text=""),
        delta("text_delta", text="Yes."),
        delta("citations_delta", citation=Some()),
        *end("end_turn"),
    )
    assert reply.text == "Yes."
    assert reply.own == [
        {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
        {"type": "text", "text": "Yes."},
    ]


@pytest.mark.parametrize(
    ("written", "given"), [('{"a": 1}', {"a": 1}), ("", {}), ('{"a"', {}), ("[1]", {})]
)
def test_arguments_go_back_as_an_object(written: str, given: dict[str, Any]) -> None:
    reply = heard(
        block(type="tool_use", id="1", name="look", input={}),
        delta("input_json_delta", partial_json=written[:2]),
        delta("input_json_delta", partial_json=written[2:]),
        *end("tool_use"),
    )
    assert reply.calls == (Call("1", "look", written or "{}"),)
    assert reply.own == [{"type": "tool_use", "id": "1", "name": "look", "input": given}]


def test_a_reply_without_a_word_is_not_sent_back() -> None:
    silent = heard(block(type="text", text=""), *end("end_turn"))
    assert (silent.text, silent.failure) == ("", None)
    sent = parameters(SETTINGS, Request((User("a"), silent, User("b"))))["messages"]
    assert [message["role"] for message in sent] == ["user", "user"]


def test_an_end_that_never_came() -> None:
    reply = heard(block(type="text", text=""), delta("text_delta", text="half"))
    assert reply.failure is not None
    assert (reply.failure.kind, reply.text) == ("overloaded", "half")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("max_tokens", "refused"),
        ("refusal", "refused"),
        ("model_context_window_exceeded", "too_long"),
        ("stop_sequence", None),
        ("some_new_word", None),
    ],
)
def test_why_it_ended(reason: str, kind: str | None) -> None:
    reply = heard(block(type="text", text="a"), *end(reason))
    assert reply.finish == reason
    assert (reply.failure.kind if reply.failure is not None else None) == kind


def test_counts_are_the_last_ones_told() -> None:
    first = Some(input_tokens=10, cache_read_input_tokens=5, output_tokens=1)
    last = Some(input_tokens=None, cache_creation_input_tokens=3, output_tokens=9)
    reply = heard(
        Some(type="message_start", message=Some(usage=first)),
        Some(type="message_delta", delta=Some(stop_reason="end_turn"), usage=last),
        Some(type="message_stop"),
    )
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (18, 9)
    assert reply.usage.cached_tokens == 5
