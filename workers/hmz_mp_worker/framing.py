"""Frames over a stream socket: a header, a body (one encoded message), and raw buffers.

A frame is ``<II`` (body length, number of buffers), then each buffer's length as ``<Q``, then the
body, then the buffers. Large values travel as buffers, so the body stays small and has a ceiling.
A length's highest bit says that the buffer is writable where it comes from, and so has to be
where it arrives. Knows nothing of what a body means.
"""

from __future__ import annotations

import mmap
import socket
import struct
from collections.abc import Sequence

from hmz_mp_worker.memory import Fresh, fresh

__all__ = [
    "BODY_CEILING",
    "BUFFER_CEILING",
    "WRITABLE",
    "Buffer",
    "Frame",
    "FrameError",
    "FrameReader",
    "frame_parts",
    "marked_length",
    "send_all",
]

Buffer = bytes | bytearray | memoryview
Frame = tuple[Buffer, list[Buffer]]

BODY_CEILING = 1 << 28
BUFFERS_CEILING = 1 << 20
BUFFER_CEILING = 1 << 42

WRITABLE = 1 << 63

_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")


class FrameError(Exception):
    """Raised when what arrives is not a frame, or one over the ceilings."""


def frame_parts(body: bytes, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the pieces of a frame, to be written one after the other."""
    if len(body) > BODY_CEILING:
        raise FrameError(f"a message of {len(body):,} bytes is over the ceiling {BODY_CEILING:,}")
    head = _HEADER.pack(len(body), len(buffers))
    if not buffers:
        return [head + body]
    lengths = b"".join([_LENGTH.pack(marked_length(buffer)) for buffer in buffers])
    return [head + lengths + body, *buffers]


def marked_length(buffer: Buffer) -> int:
    """Return a buffer's length in bytes, with the bit `WRITABLE` if it is."""
    view = memoryview(buffer)
    return view.nbytes if view.readonly else view.nbytes | WRITABLE


def send_all(sock: socket.socket, parts: Sequence[Buffer]) -> None:
    """Write all of ``parts`` to a blocking socket."""
    for part in parts:
        sock.sendall(part)


class FrameReader:
    """Puts frames together from what arrives.

    Receive into `target`, then say how much came with `received`, which returns the frames that
    are now whole. A body it returns may be a view of its own buffer: decode it before the next
    call of `target`. Its buffers are received in place, into ``bytes``, or ``bytearray`` where
    they are writable, and nobody else holds them.
    """

    # The whole state: the buffer and the filled part of it; for a frame that does not fit in
    # the buffer, the parts that are whole, those still wanted, and the one being filled.
    __slots__ = (
        "_buffer",
        "_end",
        "_filled",
        "_part",
        "_start",
        "_view",
        "_wanted",
        "_whole",
    )

    def __init__(self, size: int = 1 << 17) -> None:
        # Not a bytearray, which is written to as a whole when it is made: an idle worker's reader
        # takes a page of memory.
        self._buffer = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._part: Fresh | None = None
        self._filled = 0
        self._wanted: list[int] = []
        self._whole: list[Buffer] = []

    def target(self) -> memoryview:
        """Return where the next bytes are to be received."""
        if self._part is not None:
            return self._part.view[self._filled :]
        if self._start:
            rest = self._end - self._start
            self._view[:rest] = self._view[self._start : self._end]
            self._start, self._end = 0, rest
        return self._view[self._end :]

    def received(self, count: int) -> list[Frame]:
        """Take note of ``count`` new bytes in `target`; return the frames that are now whole."""
        frames: list[Frame] = []
        if self._part is not None:
            self._filled += count
            if self._filled < len(self._part.view) or not self._next_part():
                return frames
            frames.append(self._take_whole())
        else:
            self._end += count
        while (frame := self._small_frame()) is not None:
            frames.append(frame)
        return frames

    @property
    def large(self) -> bool:
        """Whether `target` is the rest of one large part."""
        return self._part is not None

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not whole."""
        return self._part is not None or self._end > self._start

    def _small_frame(self) -> Frame | None:
        """Return the next frame that lies in the buffer whole, or begin a larger one."""
        have = self._end - self._start
        if have < _HEADER.size:
            return None
        body_length, count = _HEADER.unpack_from(self._buffer, self._start)
        if body_length > BODY_CEILING or count > BUFFERS_CEILING:
            raise FrameError(f"a frame of {body_length:,} bytes and {count:,} buffers")
        head = _HEADER.size + _LENGTH.size * count
        if not count and have >= head + body_length:
            at = self._start + head
            self._start = at + body_length
            return self._view[at : self._start], []
        if head > len(self._buffer):
            raise FrameError(f"a frame of {count:,} buffers")
        if have < head or (not count and head + body_length <= len(self._buffer)):
            return None
        return self._begin_large(body_length, head)

    def _begin_large(self, body_length: int, head: int) -> Frame | None:
        lengths = [
            length
            for (length,) in _LENGTH.iter_unpack(
                self._view[self._start + _HEADER.size : self._start + head]
            )
        ]
        largest = max((length & ~WRITABLE for length in lengths), default=0)
        if largest > BUFFER_CEILING:
            raise FrameError(f"a buffer of {largest:,} bytes")
        self._start += head
        self._wanted = [body_length, *lengths]
        return self._take_whole() if self._next_part() else None

    def _next_part(self) -> bool:
        """Put the filled part away and begin the next; return whether the frame is whole."""
        while True:
            if self._part is not None:
                self._whole.append(self._part.value())
                self._part = None
            if not self._wanted:
                return True
            wanted = self._wanted.pop(0)
            self._part = fresh(wanted & ~WRITABLE, writable=bool(wanted & WRITABLE))
            view = self._part.view
            here = min(len(view), self._end - self._start)
            view[:here] = self._view[self._start : self._start + here]
            self._start += here
            self._filled = here
            if here < len(view):
                return False

    def _take_whole(self) -> Frame:
        body, *buffers = self._whole
        self._whole = []
        return body, buffers
