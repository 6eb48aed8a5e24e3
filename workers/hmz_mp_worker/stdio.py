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
from os import SEEK_CUR, SEEK_END, lseek
from typing import IO

from hmz_mp_worker.kernel import punch_hole

__all__ = ["OUTPUT_CEILING", "Output", "bound", "output_file", "redirect", "tail"]

_STREAMS = {"stdout": 1, "stderr": 2}
OUTPUT_CEILING = 1 << 16  # what is kept of one turn's output, in bytes
# Output begins here, behind a hole: so a file whose end is here, and no other, is ours and empty.
_BEGIN = (1 << 20) + 4093
_MUCH = 1 << 23  # bytes of output that may lie in memory before their beginning is dropped


def output_file(fd: int) -> int:
    """Make ``fd`` (an anonymous file) one that is only appended to; return it."""
    os.ftruncate(fd, _BEGIN)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def redirect(output: int) -> None:
    """Make 0 read nothing, and 1 and 2 (and ``sys.stdout``, ``sys.stderr``) write to ``output``."""
    _open_null()
    _open_stdin()
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in _STREAMS:
        _open_stream(name)


def _open_null() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if null > 2:
        os.close(null)


class _Raw(io.FileIO):
    """A standard stream's file, whose closing is noted, and whose descriptor stays open."""

    closings = 0

    def close(self) -> None:
        if not self.closed:
            _Raw.closings += 1
        super().close()


def _open_stream(name: str) -> None:
    # As of `python -u`: what is printed is written at once, so nothing is to be flushed.
    stream = io.TextIOWrapper(
        _Raw(_STREAMS[name], "wb", closefd=False),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
    _set(name, stream)


def _set(name: str, stream: io.TextIOWrapper) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _open_stdin() -> None:
    raw = io.BufferedReader(_Raw(0, "rb", closefd=False))
    _set("stdin", io.TextIOWrapper(raw, encoding="utf-8"))


class Output:
    """What the running call has printed, and where the next one's goes."""

    # The whole state: the file; the streams that hold between calls, and how often such a one
    # was closed by then.
    __slots__ = ("_closings", "_fd", "_streams")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._streams: tuple[IO[str], IO[str], IO[str]]
        self.accept()

    def accept(self) -> None:
        """Take the streams that are there now as those that hold between calls."""
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._closings = _Raw.closings

    def is_untouched(self) -> bool:
        """Whether nothing was printed and the streams are the same, as far as costs little to see.

        A descriptor that C code alone has closed or replaced is seen only if it is 1.
        """
        stdin, stdout, stderr = self._streams
        try:
            return (
                sys.stdout is stdout
                and sys.stderr is stderr
                and sys.stdin is stdin
                and _Raw.closings == self._closings
                and lseek(1, 0, SEEK_END) == _BEGIN
            )
        except (AttributeError, OSError):  # whatever the call has made of them, `take` undoes it
            return False

    def take(self) -> bytes:
        """Return what was printed since the last call of this, at most `OUTPUT_CEILING`'s end.

        What the call did to its streams and descriptors is undone.
        """
        try:
            if (
                self.is_untouched()
                and lseek(2, 0, SEEK_END) == _BEGIN
                and not lseek(0, 0, SEEK_CUR)
            ):
                return b""
        except OSError:  # it is closed
            pass
        return self._take()

    def _take(self) -> bytes:
        self._flush()
        self.repair()
        self._flush()  # what could not be written a moment ago
        if os.lseek(self._fd, 0, os.SEEK_END) == _BEGIN:
            return b""
        data = tail(self._fd, OUTPUT_CEILING)
        os.ftruncate(self._fd, _BEGIN)
        return data

    def _flush(self) -> None:
        now = (getattr(sys, name, None) for name in _STREAMS)
        for stream in (*now, *self._streams[1:]):
            with contextlib.suppress(Exception):  # closed, or none, or something else by now
                stream.flush()  # type: ignore[union-attr]

    def repair(self) -> None:
        """Put back the streams and the descriptors that were changed."""
        ours = _identity(self._fd)
        for fd in _STREAMS.values():
            if _identity(fd) != ours:
                os.dup2(self._fd, fd)
        if _identity(0) != _identity_of_null():
            _open_null()
        os.set_inheritable(0, True)  # it is not, opened where 0 was free
        sys.stdin, sys.stdout, sys.stderr = self._streams
        for name in _STREAMS:
            if getattr(sys, name).closed:
                _open_stream(name)
        if sys.stdin.closed:
            _open_stdin()
        self.accept()

    def trim(self) -> None:
        """Drop what no turn owns, once there is too much of it."""
        if os.lseek(self._fd, 0, os.SEEK_END) > _BEGIN + OUTPUT_CEILING:
            os.ftruncate(self._fd, _BEGIN)


def _identity(fd: int) -> tuple[int, ...]:
    try:
        found = os.fstat(fd)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_rdev


def _identity_of_null() -> tuple[int, ...]:
    found = os.stat(os.devnull)  # noqa: PTH116  # the same fields as above
    return found.st_dev, found.st_ino, found.st_rdev


def tail(fd: int, ceiling: int) -> bytes:
    """Return the last ``ceiling`` bytes of an output file, saying how much came before."""
    size = os.fstat(fd).st_size
    begin = _BEGIN if size >= _BEGIN else 0  # whoever truncates what it prints to has less
    cut = max(begin, size - ceiling)
    data = os.pread(fd, size - cut, cut)
    return b"[%d bytes before this were cut]\n" % (cut - begin) + data if cut > begin else data


def bound(fd: int) -> None:
    """Drop the beginning of an output file that takes much memory; its length stays."""
    found = os.fstat(fd)
    if found.st_blocks * 512 > _MUCH:
        punch_hole(fd, _BEGIN, found.st_size - _BEGIN - OUTPUT_CEILING)
