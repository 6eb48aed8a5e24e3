from __future__ import annotations

import socket
import struct
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmz_mp_worker import framing
from hmz_mp_worker.framing import (
    WRITABLE,
    Buffer,
    Frame,
    FrameError,
    FrameReader,
    frame_parts,
    send_all,
)

Frames = list[tuple[bytes, list[bytes]]]

sizes = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 127, 128, 129, 300]))
pieces = sizes.map(lambda size: bytes(at % 251 for at in range(size)))
frames = st.lists(st.tuples(pieces, st.lists(pieces, max_size=3)), max_size=8)


def as_stream(wanted: Frames) -> bytes:
    return b"".join(bytes(part) for body, buffers in wanted for part in frame_parts(body, buffers))


def read(reader: FrameReader, stream: bytes, most: int) -> Frames:
    """Feed a stream to a reader, at most ``most`` bytes at a time."""
    found: Frames = []
    while stream:
        target = reader.target()
        assert len(target) > 0, "a reader that takes nothing would read the end of the stream"
        count = min(len(target), most, len(stream))
        target[:count] = stream[:count]
        stream = stream[count:]
        found += [(bytes(body), [bytes(b) for b in bs]) for body, bs in reader.received(count)]
    return found


@given(frames, st.integers(1, 400))
def test_any_frames_cut_anywhere_come_back_whole(wanted: Frames, most: int) -> None:
    reader = FrameReader(128)
    assert read(reader, as_stream(wanted), most) == wanted
    assert not reader.partial


@given(frames.filter(bool), st.data())
def test_a_cut_off_stream_yields_what_was_whole(wanted: Frames, data: st.DataObject) -> None:
    stream = as_stream(wanted)
    cut = data.draw(st.integers(0, len(stream) - 1))
    reader = FrameReader(128)
    found = read(reader, stream[:cut], 50)
    assert found == wanted[: len(found)]
    assert len(found) < len(wanted)
    assert reader.partial == (cut > len(as_stream(found)))


@settings(max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 1 << 16, (1 << 17) - 8, (1 << 17) - 7, 1 << 18])))
def test_bodies_about_the_readers_own_size(lengths: list[int]) -> None:
    wanted: Frames = [(b"x" * length, []) for length in lengths]
    assert read(FrameReader(), as_stream(wanted), 1 << 16) == wanted


@given(st.lists(st.tuples(pieces, st.booleans()), min_size=1, max_size=6), st.integers(1, 400))
def test_buffers_arrive_as_what_they_were(parts: list[tuple[bytes, bool]], most: int) -> None:
    buffers: list[Buffer] = [bytearray(data) if writable else data for data, writable in parts]
    stream = b"".join(bytes(part) for part in frame_parts(b"b", buffers))
    reader = FrameReader(128)
    found: list[Frame] = []
    while stream:
        target = reader.target()
        count = min(len(target), most, len(stream))
        target[:count] = stream[:count]
        stream = stream[count:]
        found += reader.received(count)
    ((_, back),) = found
    assert list(back) == buffers
    assert [type(one) for one in back] == [type(one) for one in buffers]


def test_read_only_views_arrive_as_bytes() -> None:
    (_, back), *_ = read_frames([memoryview(b"abc"), memoryview(bytearray(b"def"))])
    assert [type(one) for one in back] == [bytes, bytearray]


def read_frames(buffers: list[Buffer]) -> list[Frame]:
    stream = b"".join(bytes(part) for part in frame_parts(b"b", buffers))
    reader = FrameReader()
    reader.target()[: len(stream)] = stream
    return reader.received(len(stream))


def test_an_empty_body() -> None:
    assert read(FrameReader(), as_stream([(b"", [])]), 1) == [(b"", [])]


def test_an_empty_body_with_buffers() -> None:
    wanted = [(b"", [b"", b"abc", b""])]
    assert read(FrameReader(), as_stream(wanted), 2) == wanted


def test_one_frame_is_one_piece() -> None:
    assert frame_parts(b"body") == [struct.pack("<II", 4, 0) + b"body"]


def test_buffers_are_not_copied() -> None:
    buffer = memoryview(bytearray(10))
    assert frame_parts(b"body", [buffer])[1] is buffer


def test_a_buffer_of_wide_items_counts_its_bytes() -> None:
    wide = memoryview(bytearray(24)).cast("Q")
    stream = b"".join(bytes(part) for part in frame_parts(b"b", [wide]))
    assert read(FrameReader(), stream, 7) == [(b"b", [bytes(24)])]


def test_a_body_over_the_ceiling_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "BODY_CEILING", 10)
    frame_parts(b"x" * 10)
    with pytest.raises(FrameError, match="11 bytes is over the ceiling 10"):
        frame_parts(b"x" * 11)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<II", framing.BODY_CEILING + 1, 0),
        struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF),
        struct.pack("<II", 0, framing.BUFFERS_CEILING + 1),
        struct.pack("<IIQ", 0, 1, framing.BUFFER_CEILING + 1),
        struct.pack("<IIQ", 0, 1, (framing.BUFFER_CEILING + 1) | WRITABLE),
        struct.pack("<IIQQ", 5, 2, 3, (1 << 64) - 1),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_over_the_ceilings_is_refused(head: bytes) -> None:
    with pytest.raises(FrameError):
        read(FrameReader(), head + bytes(64), 1 << 10)


def test_ceilings_are_looked_at_before_memory_is_taken() -> None:
    with pytest.raises(FrameError, match="a buffer of"):
        read(FrameReader(), struct.pack("<IIQ", 0, 1, 1 << 43), 100)


def test_partial() -> None:
    reader = FrameReader(64)
    assert not reader.partial
    read(reader, b"\x01", 1)
    assert reader.partial
    read(reader, struct.pack("<II", 1, 0)[1:] + b"x", 100)
    assert not reader.partial
    read(reader, struct.pack("<IIQ", 1, 1, 100) + b"x", 100)  # its buffer has not come
    assert reader.partial


def test_send_all_writes_what_a_socket_takes_in_pieces() -> None:
    left, right = socket.socketpair()
    with left, right:
        wanted: Frames = [(b"body", [bytes(1 << 20), b"end"])]
        sender = threading.Thread(target=send_all, args=(left, frame_parts(*wanted[0])))
        sender.start()
        reader = FrameReader()
        found: Frames = []
        while not found:
            count = right.recv_into(reader.target())
            found += [(bytes(body), [bytes(b) for b in bs]) for body, bs in reader.received(count)]
        sender.join()
        assert found == wanted
