"""Large values through memory that two processes share, instead of through their socket.

A region has slots, each for one value, in one direction: who sends `put`s its parts into a free
one and says in a message where they lie; who receives `get`s them, loads the value and
`release`s the slot. A value that finds none, or is larger, goes by the socket. The lowest slot is
taken first, and again and again, since touching new pages costs more than copying.

Where there is no room for this memory, all values go by the socket. (Copying out while the other
process still copies in was measured: in pieces it took longer than one after the other.)
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence

from hmz_mp_worker.framing import WRITABLE, Buffer, marked_length
from hmz_mp_worker.memory import copy_of, keep_freed_memory
from hmz_mp_worker.page import SIZE as PAGE_SIZE

__all__ = ["ROOM", "SLOTS", "Arena", "Region"]

SLOTS = 8
ROOM = 1 << 22  # bytes of one value, at most
_HEADER_ROOM = 1 << 12  # a byte for each slot: whether it is taken
_ALIGN = 64
_REGION = _HEADER_ROOM + SLOTS * ROOM
FILE_SIZE = PAGE_SIZE + 2 * _REGION


class Arena:
    """The shared memory of one worker, as one of the two processes maps it, on first use.

    It lies behind the page in the page's file: untouched, it takes no memory.
    """

    __slots__ = ("_map", "_refused", "fd", "inbox", "outbox")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None
        self._refused = False
        self.inbox = Region(self, PAGE_SIZE)  # from the coordinator to the worker
        self.outbox = Region(self, PAGE_SIZE + _REGION)

    def open(self) -> Arena:
        """Make room and map it now, so that the descriptor may be closed; return the arena.

        Where a limit of this process (of the sizes of files, or of its memory) is lower, neither
        process has it.
        """
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, FILE_SIZE)
        if self.memory() is None:
            with contextlib.suppress(OSError):
                os.ftruncate(self.fd, PAGE_SIZE)
        return self

    def memory(self) -> mmap.mmap | None:
        """Return the whole mapping, or ``None`` where there is none to be had."""
        if self._map is None and not self._refused:
            try:
                self._map = mmap.mmap(self.fd, FILE_SIZE)
            except (OSError, ValueError):  # no room for it here, or the file is shorter
                self._refused = True
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
    """One direction's shared memory, as one of the two processes sees it.

    Where a value lies is a list: its slot, and the length of each part, marked as in a frame.
    """

    __slots__ = ("_arena", "_at", "_view")

    def __init__(self, arena: Arena, at: int) -> None:
        self._arena = arena
        self._at = at
        self._view: memoryview | None = None

    def put(self, parts: Sequence[Buffer]) -> list[int] | None:
        """Copy a value's parts in; return where they lie, or ``None`` if they do not go there."""
        where = [marked_length(part) for part in parts]
        if sum((length & ~WRITABLE) + _ALIGN for length in where) > ROOM:
            return None
        view = self._memory()
        if view is None:
            return None
        slot = bytes(view[:SLOTS]).find(0)
        if slot < 0:
            return None
        view[slot] = 1
        at = _HEADER_ROOM + slot * ROOM
        for part in parts:
            flat = memoryview(part).cast("B")
            view[at : at + flat.nbytes] = flat
            at = _next_part(at, flat.nbytes)
        return [slot, *where]

    def get(self, where: Sequence[int]) -> list[Buffer]:
        """Return a value's parts.

        The first, its pickle, is a view of the slot, for loading from before the `release`; the
        others are copies, ``bytes``, or ``bytearray`` where they were writable.
        """
        view = self._memory()
        if view is None:  # no room for it in this process, but in its sender's
            return self._read(where)
        slot, *lengths = where
        parts: list[Buffer] = []
        at = _HEADER_ROOM + slot * ROOM
        for marked in lengths:
            length = marked & ~WRITABLE
            part = view[at : at + length]
            parts.append(copy_of(part, writable=bool(marked & WRITABLE)) if parts else part)
            at = _next_part(at, length)
        return parts

    def _read(self, where: Sequence[int]) -> list[Buffer]:
        at = self._at + _HEADER_ROOM + where[0] * ROOM
        parts: list[Buffer] = []
        for marked in where[1:]:
            length = marked & ~WRITABLE
            data = os.pread(self._arena.fd, length, at)
            parts.append(bytearray(data) if marked & WRITABLE else data)
            at = _next_part(at, length)
        return parts

    def release(self, where: Sequence[int]) -> None:
        """Free the slot of a value that was loaded, or that nobody will look at."""
        view = self._memory()
        if view is not None:
            view[where[0]] = 0
        else:
            os.pwrite(self._arena.fd, b"\0", self._at + where[0])

    def close(self) -> None:
        """Let the view of the memory go."""
        self._view = None

    def _memory(self) -> memoryview | None:
        if self._view is None and (memory := self._arena.memory()) is not None:
            keep_freed_memory()  # the values that come out of here are as large
            self._view = memoryview(memory)[self._at : self._at + _REGION]
        return self._view


def _next_part(at: int, length: int) -> int:
    return at + -(-length // _ALIGN) * _ALIGN
