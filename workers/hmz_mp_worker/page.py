"""The page a worker shares with its coordinator: what it runs, and answers not sent yet.

A worker may end at any instant. From this page, which outlives it, the coordinator learns which
call it was running, and takes the answers that were ready and not sent: so only that one call is
to blame, and none that finished runs twice. An anonymous file, mapped by the worker and read by
the coordinator only after the worker's end (and by the zygote while the worker is stopped).
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

__all__ = ["Page", "PageContent", "anonymous_file", "read_page", "running_ticket"]

_HEADER = struct.Struct("<QII")  # ticket of the running call, count and length of the answers
SIZE = 1 << 16


def anonymous_file(name: str) -> int:
    """Return a descriptor of a file without a name, which goes with its last descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    import tempfile  # a slow import

    with tempfile.TemporaryFile(prefix=name) as file:  # macOS
        return os.dup(file.fileno())


class PageContent(NamedTuple):
    """What a page says: the running call's ticket or 0, and encoded answers."""

    running: int
    answer_count: int
    answers: bytes


def running_ticket(fd: int) -> int:
    """Return the ticket of the call that the page's worker is running, or 0."""
    head = os.pread(fd, _HEADER.size, 0)
    return int(_HEADER.unpack(head)[0]) if len(head) == _HEADER.size else 0


def read_page(fd: int) -> PageContent:
    """Read the page of a worker that has ended."""
    head = os.pread(fd, _HEADER.size, 0)
    if len(head) < _HEADER.size:
        return PageContent(0, 0, b"")
    running, count, length = _HEADER.unpack(head)
    return PageContent(running, count, os.pread(fd, length, _HEADER.size))


class Page:
    """The worker's side of its page."""

    __slots__ = ("_map", "_room", "count", "length")

    def __init__(self, fd: int) -> None:
        os.ftruncate(fd, SIZE)
        self._map = mmap.mmap(fd, SIZE)
        self._room = SIZE - _HEADER.size
        self.count = 0
        self.length = 0

    def begin(self, ticket: int) -> None:
        """Note that a call begins (0: that none runs)."""
        _HEADER.pack_into(self._map, 0, ticket, self.count, self.length)

    def add(self, answer: bytes, running: int = 0) -> bool:
        """Keep an encoded answer; return False when there is no room for it.

        The answer counts only from the header's change on, so one cut short is never read.
        """
        length = len(answer)
        at = self.length
        if at + length > self._room:
            return False
        self._map[_HEADER.size + at : _HEADER.size + at + length] = answer
        self.count += 1
        self.length = at + length
        _HEADER.pack_into(self._map, 0, running, self.count, self.length)
        return True

    def content(self) -> bytes:
        """Return the encoded answers kept."""
        return self._map[_HEADER.size : _HEADER.size + self.length]

    def clear(self, running: int) -> None:
        """Forget the answers, once they are sent."""
        self.count = self.length = 0
        _HEADER.pack_into(self._map, 0, running, 0, 0)
