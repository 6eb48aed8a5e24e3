"""Where a command's text goes: standard output, or a file that is there whole or not at all.

Owns both. Imported by commands; it knows nothing of what the text is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

__all__ = ["STDOUT", "deliver", "write_file", "write_stdout"]

STDOUT = "-"
_BUFFERED = 1 << 16  # characters


def deliver(pieces: Iterable[str], file: str) -> int:
    """Write ``pieces`` to ``file``, or to standard output if it is "-"; returns how many bytes.

    Raises `BadInput` when the file cannot be written.
    """
    return write_stdout(pieces) if file == STDOUT else write_file(pieces, Path(file))


def write_stdout(pieces: Iterable[str]) -> int:
    """Write to standard output; if that is a terminal, without what it would act on."""
    if sys.stdout.isatty():
        pieces = (printable(piece, multiline=True) for piece in pieces)
    sys.stdout.flush()
    written = _write(pieces, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return written


def write_file(pieces: Iterable[str], path: Path) -> int:
    """Write a file under another name, and give it its own once it is whole.

    What is there under that name stays until then, and if anything goes wrong; a device or a pipe
    is written to as it is.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                return _write(pieces, device)
        return _replace(pieces, Path(os.path.realpath(path)))
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{str(path)!r} cannot be written: {reason}") from error


def _replace(pieces: Iterable[str], path: Path) -> int:
    number, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            written = _write(pieces, file)
            os.fchmod(number, _mode(path))
        os.replace(name, path)  # noqa: PTH105  (as mkstemp has given it)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108  (as mkstemp has given it)
        raise
    return written


def _mode(path: Path) -> int:
    """Return what a new file here would have, or what the one to be replaced has."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _write(pieces: Iterable[str], file: BinaryIO) -> int:
    written = 0
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > _BUFFERED:
            written += file.write(_encoded("".join(waiting)))
            waiting.clear()
            size = 0
    return written + file.write(_encoded("".join(waiting)))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "backslashreplace")
