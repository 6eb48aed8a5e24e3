"""Large values through memory that two processes share, instead of through their socket.

A region carries one value at a time, in one direction: who sends `put`s its parts and says their
lengths in a message; who receives `get`s them, loads the value and `release`s the region, upon
which it is free for the next. A value that finds it taken, or is larger, goes by the socket.
The memory is used again and again, since touching new pages costs more than copying.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Sequence

from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.page import SIZE as PAGE_SIZE

__all__ = ["ROOM", "Arena", "Region"]

ROOM = 1 << 25  # bytes of one value, at most
_HEADER = struct.Struct("<Q")  # how many values were released so far
_HEADER_ROOM = 64
_ALIGN = 64
_REGION = _HEADER_ROOM + ROOM
FILE_SIZE = PAGE_SIZE + 2 * _REGION


class Arena:
    """The shared memory of one worker, as one of the two processes maps it, on first use.

    It lies behind the page in the page's file: untouched, it takes no memory.
    """

    __slots__ = ("_fd", "_map", "inbox", "outbox")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map: mmap.mmap | None = None
        self.inbox = Region(self, PAGE_SIZE)  # from the coordinator to the worker
        self.outbox = Region(self, PAGE_SIZE + _REGION)

    def open(self) -> Arena:
        """Make room and map it now, so that the descriptor may be closed; return the arena."""
        os.ftruncate(self._fd, FILE_SIZE)
        self.memory()
        return self

    def memory(self) -> mmap.mmap:
        """Return the whole mapping."""
        if self._map is None:
            self._map = mmap.mmap(self._fd, FILE_SIZE)
        return self._map

    def close(self) -> None:
        """Let the mapping go, now or with the last view of it."""
        self.inbox.close()
        self.outbox.close()
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None


class Region:
    """One direction's shared memory, as one of the two processes sees it."""

    __slots__ = ("_arena", "_at", "_count", "_view")

    def __init__(self, arena: Arena, at: int) -> None:
        self._arena = arena
        self._at = at
        self._view: memoryview | None = None
        self._count = 0  # values put, or values got, so far

    def put(self, parts: Sequence[Buffer]) -> list[int] | None:
        """Copy a value's parts in; return their lengths, or ``None`` if it does not go there."""
        lengths = [memoryview(part).nbytes for part in parts]
        if sum(length + _ALIGN for length in lengths) > ROOM:
            return None
        view = self._memory()
        if _HEADER.unpack_from(view)[0] != self._count:
            return None
        self._count += 1
        at = _HEADER_ROOM
        for part, length in zip(parts, lengths, strict=True):
            view[at : at + length] = memoryview(part).cast("B")
            at += -(-length // _ALIGN) * _ALIGN
        return lengths

    def get(self, lengths: Sequence[int], *, borrowed: bool) -> list[memoryview]:
        """Return a value's parts.

        The first is a view of the region, for loading from at once; so are the others when they
        are ``borrowed``. Else they are copies, which may be kept.
        """
        view = self._memory()
        self._count += 1
        parts: list[memoryview] = []
        at = _HEADER_ROOM
        for length in lengths:
            part = view[at : at + length]
            parts.append(part if borrowed or not parts else memoryview(bytearray(part)))
            at += -(-length // _ALIGN) * _ALIGN
        return parts

    def release(self) -> None:
        """Free the region for the next value."""
        _HEADER.pack_into(self._memory(), 0, self._count)

    def skip(self) -> None:
        """Free the region of a value that was not looked at."""
        self._count += 1
        self.release()

    def close(self) -> None:
        """Let the view of the memory go."""
        self._view = None

    def _memory(self) -> memoryview:
        if self._view is None:
            self._view = memoryview(self._arena.memory())[self._at : self._at + _REGION]
        return self._view
