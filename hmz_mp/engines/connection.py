"""A framed connection on the coordinator's loop: writes never block, reads come in slices."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from hmz_mp.core.loop import Driver
from hmz_mp_worker.framing import Buffer, Frame, FrameError, FrameReader, frame_parts

__all__ = ["Connection"]

_SOCKET_BUFFER = 1 << 19
_GATHER = 1 << 16
_SLICE = 1 << 15  # bytes of small frames that are taken in before the loop goes on
_LARGE_SLICE = 1 << 22  # bytes of a large value: a millisecond or two


class Connection:
    """One end of a socket pair.

    ``on_frame`` gets each frame, ``after`` is called once all frames of a slice were given to it,
    and ``on_end`` at the end of them.
    """

    # The whole state: the socket until it is closed, what waits to be written (with descriptors
    # that go along, to be closed here then), and whether the loop was asked for writability.
    def __init__(
        self,
        driver: Driver,
        sock: socket.socket,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[], None],
        after: Callable[[], None] | None = None,
    ) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
        self._driver = driver
        self._sock = sock
        self._fd = sock.fileno()
        self._reader = FrameReader()
        self._on_frame = on_frame
        self._on_end = on_end
        self._after = after
        self._waiting: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._writing = False
        self.closed = False
        self.fault = ""  # why what comes is no longer understood
        driver.add_reader(self._fd, self._readable)

    @property
    def backlog(self) -> int:
        """How many bytes wait to be written."""
        return sum(len(view) for view, _ in self._waiting)

    def send(self, body: bytes, buffers: Sequence[Buffer] = (), fds: Sequence[int] = ()) -> None:
        """Send a frame; ``fds`` travel with its first byte, and are closed here once sent."""
        if self.closed:
            _close_all(fds)
            return
        parts = frame_parts(body, buffers)
        if not self._waiting and not fds and len(parts) == 1 and self._send_now(parts[0]):
            return
        for at, part in enumerate(parts):
            self._waiting.append((memoryview(part).cast("B"), () if at else fds))
        self._write()

    def _send_now(self, part: Buffer) -> bool:
        """Write a small frame at once, as nearly always is possible; return whether it was."""
        try:
            sent = self._sock.send(part)
        except BlockingIOError:
            sent = 0
        except OSError:  # the peer is gone, and whoever reports its end says so
            return True
        if sent == len(part):
            return True
        self._waiting.append((memoryview(part)[sent:], ()))
        self._write()
        return True

    def _write(self) -> None:
        """Write what can be written; ask the loop to come back for the rest."""
        room = _LARGE_SLICE
        try:
            while self._waiting:
                if room <= 0:  # a peer that reads as fast would keep the loop here
                    raise BlockingIOError
                view, fds = self._waiting[0]
                if fds:
                    sent = socket.send_fds(self._sock, [view[:_GATHER]], list(fds))
                    _close_all(fds)
                else:
                    sent = self._sock.send(view)
                room -= sent
                if sent == len(view):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = (view[sent:], ())
        except BlockingIOError:
            if not self._writing:
                self._writing = True
                self._driver.add_writer(self._fd, self._write)
            return
        except OSError:  # the peer is gone, and whoever reports its end says so
            self._drop_waiting()
        if self._writing:
            self._writing = False
            self._driver.remove_writer(self._fd)

    def _readable(self) -> None:
        """Read one slice; of a large value as much as a slice of it, while it comes."""
        room = _LARGE_SLICE
        while self._receive() and self._reader.large and room > 0:
            room -= _SOCKET_BUFFER

    def _receive(self) -> bool:
        """Read one slice; return whether there may be more."""
        try:
            reader = self._reader
            count = self._sock.recv_into(reader.target(), 0 if reader.large else _SLICE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            count = 0
        if not count:
            self._driver.remove_reader(self._fd)
            self._on_end()
            return False
        try:
            for frame in self._reader.received(count):
                self._on_frame(frame)
        except (FrameError, msgspec.MsgspecError, MemoryError) as error:
            # A call wrote into its worker's socket, or sends more than there is memory for.
            # Nothing that follows can be understood.
            self.fault = f"{type(error).__name__}: {error}"
            self._driver.remove_reader(self._fd)
            self._on_end()
            return False
        if self._after is not None:
            self._after()
        return not self.closed

    def drain(self) -> None:
        """Read everything that is there: the peer is gone, and what it sent is not."""
        while not self.closed and not self.fault and self._receive():
            pass

    def finish(self) -> None:
        """Send no more; the peer sees the end, and may still say something."""
        if not self.closed:
            self._drop_waiting()
            with contextlib.suppress(OSError):  # the peer is gone
                self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if not self.closed:
            self.closed = True
            self._driver.remove_reader(self._fd)
            if self._writing:
                self._driver.remove_writer(self._fd)
            self._drop_waiting()
            self._sock.close()

    def _drop_waiting(self) -> None:
        for _, fds in self._waiting:
            _close_all(fds)
        self._waiting.clear()


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
