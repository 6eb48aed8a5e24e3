from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from hmz_mp.core.loop import current_driver
from hmz_mp.engines.connection import Connection
from hmz_mp_worker.framing import FrameReader, frame_parts, send_all
from tests.helpers import await_until

pytestmark = pytest.mark.anyio

Heard = list[tuple[bytes, list[bytes]]]


class End:
    """A connection, what came, and the other end as a plain socket."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.heard: Heard = []
        self.ended = 0
        self.on_frame: Callable[[], None] = lambda: None
        self._reader = FrameReader()
        self.connection = Connection(current_driver(), ours, self._frame, self._end)

    def _frame(self, frame: object) -> None:
        body, buffers = frame  # type: ignore[misc]  # a frame is a pair
        self.heard.append((bytes(body), [bytes(one) for one in buffers]))  # type: ignore[has-type]
        self.on_frame()

    def _end(self) -> None:
        self.ended += 1

    def read(self) -> Heard:
        """Return the frames that the peer can read whole now."""
        found: Heard = []
        while True:
            try:
                count = self.peer.recv_into(self._reader.target())
            except BlockingIOError:
                return found
            if not count:
                return found
            found += [
                (bytes(b), [bytes(one) for one in bs]) for b, bs in self._reader.received(count)
            ]

    def close(self) -> None:
        self.connection.close()
        self.peer.close()


@pytest.fixture
async def end(anyio_backend: str) -> AsyncIterator[End]:
    end = End()
    yield end
    end.close()


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


async def test_small_frames_go_at_once(end: End) -> None:
    end.connection.send(b"one")
    end.connection.send(b"")
    assert end.read() == [(b"one", []), (b"", [])]
    assert end.connection.backlog == 0


async def test_frames_come_in(end: End) -> None:
    end.peer.setblocking(True)
    for body, buffers in ((b"one", []), (b"two", [b"x" * 1000, b""])):
        send_all(end.peer, frame_parts(body, buffers))
    await await_until(lambda: len(end.heard) == 2)
    assert end.heard == [(b"one", []), (b"two", [b"x" * 1000, b""])]


async def test_a_peer_that_does_not_read_blocks_nobody(end: End) -> None:
    wanted = [bytes([at]) * 300_000 for at in range(40)]
    for body in wanted:
        end.connection.send(body)
    assert end.connection.backlog > 5_000_000
    found: Heard = []

    def read() -> bool:
        found.extend(end.read())
        return len(found) == 40

    await await_until(read)
    assert [body for body, _ in found] == wanted
    assert end.connection.backlog == 0
    end.connection.send(b"after")
    assert end.read() == [(b"after", [])]


async def test_big_buffers_both_ways(end: End) -> None:
    big = os.urandom(1 << 20) * 20
    end.connection.send(b"big", [big, memoryview(bytearray(24)).cast("Q")])
    end.connection.send(b"behind it")
    found: Heard = []

    def read() -> bool:
        found.extend(end.read())
        return len(found) == 2

    await await_until(read)
    assert found == [(b"big", [big, bytes(24)]), (b"behind it", [])]
    stream = b"".join(bytes(part) for part in frame_parts(b"back", [big]))

    def write() -> bool:
        nonlocal stream
        with contextlib.suppress(BlockingIOError):
            stream = stream[end.peer.send(stream[: 1 << 20]) :]
        return not stream

    await await_until(write)
    await await_until(lambda: end.heard)
    assert end.heard == [(b"back", [big])]


async def test_descriptors_go_along_and_are_closed_here(end: End, pipe: tuple[int, int]) -> None:
    read_end, write_end = pipe
    end.connection.send(b"with two", fds=[read_end, write_end])
    data, fds, _, _ = socket.recv_fds(end.peer, 100, 5)
    assert data.endswith(b"with two")
    assert len(fds) == 2
    os.write(fds[1], b"through")
    assert os.read(fds[0], 10) == b"through"
    for fd in fds:
        os.close(fd)
    for fd in pipe:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


async def test_descriptors_wait_in_line(end: End, pipe: tuple[int, int]) -> None:
    while end.connection.backlog == 0:
        end.connection.send(b"z" * 100_000)
    end.connection.send(b"with two", fds=pipe)
    assert os.fstat(pipe[0])
    end.connection.finish()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe[0])


async def test_a_peer_that_is_gone(end: End, pipe: tuple[int, int]) -> None:
    end.peer.close()
    end.connection.send(b"to nobody")
    end.connection.send(b"to nobody", [b"buffer"], pipe)
    assert end.connection.backlog == 0
    await await_until(lambda: end.ended)
    assert end.ended == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe[0])


async def test_what_a_peer_sent_before_it_went_is_heard(end: End) -> None:
    send_all(end.peer, frame_parts(b"last words"))
    end.peer.close()
    await await_until(lambda: end.ended)
    assert end.heard == [(b"last words", [])]


async def test_drain_reads_all_that_is_there(end: End) -> None:
    end.peer.setblocking(True)
    for at in range(20):
        send_all(end.peer, frame_parts(bytes([at]) * 1000))
    end.connection.drain()
    assert len(end.heard) == 20


async def test_finish_still_hears(end: End) -> None:
    end.connection.send(b"x")
    end.connection.finish()
    end.read()
    assert end.peer.recv(1) == b""
    send_all(end.peer, frame_parts(b"goodbye"))
    await await_until(lambda: end.heard)
    assert end.heard == [(b"goodbye", [])]


async def test_closing_from_a_frame(end: End) -> None:
    end.on_frame = end.connection.close
    for body in (b"one", b"two"):
        send_all(end.peer, frame_parts(body))
    await await_until(lambda: end.heard)
    assert end.connection.closed
    end.connection.close()
    end.connection.drain()
    assert end.ended == 0


async def test_sending_after_the_close(end: End, pipe: tuple[int, int]) -> None:
    end.connection.close()
    end.connection.send(b"late", fds=pipe)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pipe[1])
