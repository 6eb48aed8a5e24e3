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

# The running call's ticket; the length of the answers, shifted, and their count. Each is written
# at once, so that whenever the worker ends the answers that count are whole.
_HEADER = struct.Struct("=QQ")
_SHIFT = 32
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
    running, answers = _HEADER.unpack(head)
    count, length = answers & (1 << _SHIFT) - 1, answers >> _SHIFT
    return PageContent(running, count, os.pread(fd, length, _HEADER.size))


class Page:
    """The worker's side of its page."""

    __slots__ = ("_header", "_map", "_room", "count", "length")

    def __init__(self, fd: int) -> None:
        os.ftruncate(fd, SIZE)
        self._map = mmap.mmap(fd, SIZE)
        self._header = memoryview(self._map)[: _HEADER.size].cast("Q")
        self._room = SIZE - _HEADER.size
        self.count = 0
        self.length = 0

    def begin(self, ticket: int) -> None:
        """Note that a call begins (0: that none runs)."""
        self._header[0] = ticket

    def add(self, answer: bytes) -> bool:
        """Keep an encoded answer, of the call that ran; return False when there is no room for it.

        It counts from the header's change on. Who reads the page takes answers before blame, so
        a call that is still said to run by then is not blamed.
        """
        at = self.length
        end = at + len(answer)
        if end > self._room:
            return False
        self._map[_HEADER.size + at : _HEADER.size + end] = answer
        self.count += 1
        self.length = end
        self._header[1] = end << _SHIFT | self.count
        self._header[0] = 0
        return True

    def content(self) -> bytes:
        """Return the encoded answers kept."""
        return self._map[_HEADER.size : _HEADER.size + self.length]

    def clear(self) -> None:
        """Forget the answers, once they are sent."""
        self.count = self.length = 0
        self._header[1] = 0

    def close(self) -> None:
        """Let the mapping go; the page itself stays with whoever has its descriptor."""
        self._header.release()
        self._map.close()
