"""Whose the worktrees in a directory are: a lock that ends with its process, and nothing else.

``RUN.lock`` lies beside the directory ``RUN``; it is made and locked before the directory is, and
removed after it. Imported by ``hmz_mp.worktrees`` only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hmz_mp.errors import BadInput

__all__ = ["Ownership", "owned_names", "worktrees_directory"]

_SUFFIX = ".lock"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def worktrees_directory(start: Path) -> Path:
    """Return where the worktrees of the runs that were started in ``start`` are."""
    return start / ".hmz-mp" / "worktrees"


def owned_names(directory: Path) -> list[str]:
    """Return the names there are, owned or left behind."""
    try:
        entries = list(directory.iterdir())
    except OSError:
        return []
    return sorted({one.name.removesuffix(_SUFFIX) for one in entries})


class Ownership:
    """The lock on one name, held from its making to `release`; a context manager.

    Raises `BlockingIOError` when another process has it. ``about`` is what its last owner noted.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.home = directory / name
        self.about: dict[str, Any] = {}
        self._file = directory / f"{name}{_SUFFIX}"
        self._lock = self._acquire()
        with suppress(ValueError):
            self.about = dict(json.loads(os.pread(self._lock, 1 << 20, 0) or b"{}"))

    def __repr__(self) -> str:
        return f"<Ownership of {str(self.home)!r}>"

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()

    def _acquire(self) -> int:
        while True:
            lock = os.open(self._file, _FLAGS, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who had it may have removed the file between the two.
                if os.fstat(lock).st_ino == self._file.stat().st_ino:
                    return lock
            except FileNotFoundError:
                pass
            except BlockingIOError:
                os.close(lock)
                raise
            except OSError as error:
                os.close(lock)
                if error.errno in (errno.ENOLCK, errno.ENOTSUP):
                    raise BadInput(
                        f"files in {str(self._file.parent)!r} cannot be locked, which worktrees "
                        f"need: {error.strerror}"
                    ) from error
                raise
            os.close(lock)

    def note(self, **about: Any) -> None:
        """Write down, for who finds it, what the owner is about."""
        self.about |= about
        data = json.dumps(self.about).encode("ascii")
        os.pwrite(self._lock, data, 0)
        os.ftruncate(self._lock, len(data))

    def end(self) -> None:
        """Give up what was owned for good: there is nothing of it any more."""
        self._file.unlink(missing_ok=True)
        self.release()
        with suppress(OSError):  # others are there
            self._file.parent.rmdir()

    def release(self) -> None:
        """Let others have it; may be called again."""
        if self._lock >= 0:
            # Closing it is not enough: a process that is just being started may hold it yet.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = -1
