"""Descriptors 0, 1 and 2 of a worker: nothing to read, and what is printed is kept.

Both 1 and 2 append to one anonymous file, which the coordinator can still read when the worker
is gone. Appending makes truncation safe: whoever writes next, a child too, writes at the new end.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys

__all__ = ["OUTPUT_CEILING", "Output", "output_file", "redirect", "tail"]

_STREAMS = {"stdout": 1, "stderr": 2}
OUTPUT_CEILING = 1 << 16  # what is kept of one turn's output, in bytes


def output_file(fd: int) -> int:
    """Make ``fd`` (an anonymous file) one that is only appended to; return it."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def redirect(output: int) -> None:
    """Make 0 read nothing, and 1 and 2 (and ``sys.stdout``, ``sys.stderr``) write to ``output``."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if null > 2:
        os.close(null)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in _STREAMS:
        _open_stream(name)


def _open_stream(name: str) -> None:
    stream = io.TextIOWrapper(
        open(_STREAMS[name], "wb", closefd=False),  # noqa: SIM115  # kept for good
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _mend_streams() -> None:
    """Open again what a call has closed, so that the next call can print."""
    for name in _STREAMS:
        with contextlib.suppress(Exception):  # what stands there now is the user's, and broken
            stream = getattr(sys, name)
            if stream.closed:
                _open_stream(name)
            else:
                stream.flush()


class Output:
    """What the running call has printed."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def take(self) -> bytes:
        """Return what was printed since the last call of this, at most `OUTPUT_CEILING`'s end."""
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:  # the call has closed, replaced or deleted one of them
            _mend_streams()
        if not os.lseek(self._fd, 0, os.SEEK_END):
            return b""
        data = tail(self._fd, OUTPUT_CEILING)
        os.ftruncate(self._fd, 0)
        return data

    def trim(self) -> None:
        """Drop what no turn owns, once there is too much of it."""
        if os.lseek(self._fd, 0, os.SEEK_END) > OUTPUT_CEILING:
            os.ftruncate(self._fd, 0)


def tail(fd: int, ceiling: int) -> bytes:
    """Return the last ``ceiling`` bytes of an output file, saying how much came before."""
    size = os.fstat(fd).st_size
    cut = max(0, size - ceiling)
    data = os.pread(fd, size - cut, cut)
    return b"[%d bytes before this were cut]\n" % cut + data if cut else data
