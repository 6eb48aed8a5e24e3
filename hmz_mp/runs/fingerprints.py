"""What an item's file was like when its turn had ended, to tell later whether it has changed.

Owns the form. Imported by ``hmz_mp.runs`` only. It is taken after the turn, since an agent may
change the file that it is asked about; where size, time and inode are the same, nobody reads it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.core.ambient import TurnRecord

__all__ = ["GONE", "fingerprint_of", "is_as_before", "place_in", "place_of"]

GONE = "gone"
_READ = 4 << 20  # bytes: of a larger file size and times tell
_DIGEST = 16  # bytes


def place_of(record: TurnRecord) -> bytes | None:
    """Return where the file of a turn's item is, if it is about one."""
    return place_in(record.cwd, record.path)


def place_in(cwd: str | None, path: bytes | None) -> bytes | None:
    """Return where ``path`` is, from ``cwd``; ``None`` if there is none."""
    if path is None or cwd is None:
        return path
    return os.path.join(os.fsencode(cwd), path)  # noqa: PTH118  (bytes)


def fingerprint_of(path: bytes) -> str:
    """Return what a file is like now."""
    try:
        # What is no file, a pipe for one, is not to be waited for.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return GONE
    try:
        return _of_open(file)
    except OSError:
        return GONE
    finally:
        os.close(file)


def _of_open(file: int) -> str:
    about = os.fstat(file)
    signature = _signature(about)
    if not stat.S_ISREG(about.st_mode) or about.st_size > _READ:
        return f"{signature}:"
    # All of a file of that size comes at once.
    data = os.read(file, about.st_size)
    return f"{signature}:{hashlib.blake2b(data, digest_size=_DIGEST).hexdigest()}"


def is_as_before(path: bytes, fingerprint: str) -> bool:
    """Whether a file is what it was when ``fingerprint`` was taken of it."""
    try:
        now = _signature(os.stat(path))  # noqa: PTH116  (bytes)
    except OSError:
        return fingerprint == GONE
    before, _, digest = fingerprint.rpartition(":")
    if now == before:
        return True
    return bool(digest) and fingerprint_of(path).rpartition(":")[2] == digest


def _signature(of: os.stat_result) -> str:
    return f"{of.st_size} {of.st_mtime_ns} {of.st_ino}"
