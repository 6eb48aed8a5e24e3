from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp_worker import wire

DECODERS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "to_zygote": (wire.ToZygote, wire.decode_to_zygote),
    "from_zygote": (wire.FromZygote, wire.decode_from_zygote),
    "to_worker": (wire.ToWorker, wire.decode_to_worker),
    "from_worker": (wire.FromWorker, wire.decode_from_worker),
}

numbers = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
data = st.binary(max_size=50)
floats = st.floats(allow_nan=False)
booleans = st.booleans()
failures = st.builds(
    wire.Failure, pickle=data, type_name=texts, text=texts, traceback=texts, unpicklable=texts
)
answers = st.builds(
    wire.Answer,
    ticket=numbers,
    ok=booleans,
    data=data,
    began=floats,
    seconds=floats,
    output=data,
    buffers=numbers,
)
functions = st.builds(wire.Function, id=numbers, data=data)
calls = st.builds(
    wire.Call,
    ticket=numbers,
    function=numbers,
    data=data,
    session=numbers,
    buffers=numbers,
    plain=booleans,
)
BUILT: dict[str, list[st.SearchStrategy[Any]]] = {
    "to_zygote": [
        st.builds(
            wire.Boot,
            version=numbers,
            sys_path=st.lists(texts),
            preload=st.lists(texts),
            niceness=numbers,
        ),
        st.builds(wire.Fork, worker=numbers, host=booleans),
        st.builds(wire.Kill, worker=numbers, only=numbers, grace=floats),
        st.builds(wire.Preload, modules=st.lists(texts)),
    ],
    "from_zygote": [
        st.builds(wire.Booted, version=numbers, pid=numbers),
        st.builds(wire.BootFailed, text=texts),
        st.builds(wire.Forked, worker=numbers, pid=numbers),
        st.builds(wire.Exited, worker=numbers, status=numbers),
        st.builds(wire.Missed, worker=numbers, only=numbers),
    ],
    "to_worker": [
        st.builds(
            wire.Welcome,
            version=numbers,
            worker=numbers,
            sys_path=st.lists(texts),
            cwd=texts,
            log_level=numbers,
            initializer=data,
        ),
        st.builds(wire.Calls, functions=st.lists(functions), calls=st.lists(calls)),
        st.builds(
            wire.Run,
            functions=st.lists(functions),
            function=numbers,
            first_ticket=numbers,
            arguments=st.lists(data),
        ),
        st.builds(wire.Forget, functions=st.lists(numbers), sessions=st.lists(numbers)),
        st.builds(wire.Cancel, ticket=numbers),
        st.builds(wire.Paths, sys_path=st.lists(texts), cwd=texts),
        st.just(wire.Retire()),
        st.builds(wire.Tell, ticket=numbers, data=data),
    ],
    "from_worker": [
        st.builds(wire.Ready, version=numbers, pid=numbers),
        st.builds(wire.Answers, answers=st.lists(answers)),
        st.builds(wire.GaveBack, tickets=st.lists(numbers), running=numbers),
        st.builds(wire.Said, ticket=numbers, kind=texts, data=data),
        st.builds(wire.StartFailed, failure=failures, initializer=booleans),
    ],
}


@pytest.mark.parametrize("union", DECODERS)
@given(values=st.data())
def test_messages_come_back_as_they_were(union: str, values: st.DataObject) -> None:
    message = values.draw(st.one_of(BUILT[union]))
    assert DECODERS[union][1](wire.encode(message)) == message


@pytest.mark.parametrize("union", DECODERS)
def test_every_message_of_a_union_is_tried_here(union: str) -> None:
    assert len(BUILT[union]) == len(DECODERS[union][0].__args__)


@pytest.mark.parametrize("union", DECODERS)
def test_tags_of_a_union_differ(union: str) -> None:
    tags = [member.__struct_config__.tag for member in DECODERS[union][0].__args__]
    assert sorted(tags) == list(range(1, len(tags) + 1))


@pytest.mark.parametrize("union", DECODERS)
@pytest.mark.parametrize("body", [b"", b"\x00", b"\x91\x63", b"\x90", b"\x81\xa1t\x01", b"\xff"])
def test_what_is_no_message_is_an_error(union: str, body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        DECODERS[union][1](body)


def test_an_unknown_tag_is_an_error() -> None:
    body = msgspec.msgpack.encode([99, 1, 2])
    with pytest.raises(msgspec.ValidationError, match="99"):
        wire.decode_to_worker(body)


def test_a_field_of_another_type_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="int"):
        wire.decode_to_worker(msgspec.msgpack.encode([4, "not a ticket"]))


def test_a_message_of_another_direction_is_not_taken_for_one_of_this() -> None:
    with pytest.raises(msgspec.ValidationError):
        wire.decode_from_worker(wire.encode(wire.Boot(1, ["a"], ["b"], 0)))


def test_messages_do_not_change() -> None:
    with pytest.raises(AttributeError):
        wire.Cancel(1).ticket = 2  # type: ignore[misc]  # that it cannot be is the point


@given(st.lists(answers, max_size=300))
def test_answers_put_together_from_encoded_ones(wanted: list[wire.Answer]) -> None:
    body = wire.answers_prefix(len(wanted)) + b"".join(map(wire.encode_answer, wanted))
    assert wire.decode_from_worker(body) == wire.Answers(wanted)


def test_the_prefix_has_the_length_it_says() -> None:
    assert len(wire.answers_prefix(70_000)) == wire.ANSWERS_PREFIX_LENGTH


def test_defaults_of_calls_and_answers_may_be_left_out() -> None:
    short = msgspec.msgpack.encode([2, [], [[7, 1, b"x"]]])
    assert wire.decode_to_worker(short) == wire.Calls([], [wire.Call(7, 1, b"x", 0, 0)])


def test_the_version_travels_first_in_both_hellos() -> None:
    assert (
        msgspec.msgpack.decode(wire.encode(wire.Boot(wire.VERSION, [], [], 0)))[1] == wire.VERSION
    )
    assert msgspec.msgpack.decode(wire.encode(wire.Ready(wire.VERSION, 5)))[1] == wire.VERSION
