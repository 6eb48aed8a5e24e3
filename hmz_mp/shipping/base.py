"""The files of a checkout as they were when the run began, read from its repository.

Owns the git that reads them, one for a run. Imported by ``hmz_mp.shipping`` only.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import threading
from typing import TYPE_CHECKING

from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.shipping.parcels import LINK, SentFile

if TYPE_CHECKING:
    from collections.abc import Iterator, KeysView

    from hmz_mp.worktrees.trees import Opened

__all__ = ["Base"]

_SUBMODULE = "160000"
_LINKS_MOST = 8  # that lead to each other


class Base:
    """The files of one commit. Methods may be called from any thread."""

    # The whole state: mode and blob of each file, and git, once something was read.
    def __init__(self, opened: Opened) -> None:
        self._git = opened.checkout.git()
        self._files: dict[bytes, tuple[str, str]] = {}
        for line in self._git.names("ls-tree", "-r", "-z", opened.base):
            about, _, name = line.partition(b"\t")
            mode, _, blob = about.decode("ascii").split(" ")
            if mode != _SUBMODULE:
                self._files[name] = mode, blob
        self._lock = threading.Lock()
        self._reader: subprocess.Popen[bytes] | None = None

    def __contains__(self, name: bytes) -> bool:
        return name in self._files

    @property
    def names(self) -> KeysView[bytes]:
        """Their names, from the top, in git's order."""
        return self._files.keys()

    def with_needed(self, name: bytes) -> Iterator[bytes]:
        """Yield a file, what it leads to if it is a link, and the ``.gitignore`` files above it."""
        for _ in range(_LINKS_MOST):
            yield name
            above = name
            while above:
                above = posixpath.dirname(above)
                ignoring = posixpath.join(above, b".gitignore")
                if ignoring in self._files:
                    yield ignoring
            if self._files[name][0] != LINK:
                return
            target = posixpath.join(posixpath.dirname(name), self.read(name).content)
            name = posixpath.normpath(target)
            if name not in self._files:  # it leads out, or to a directory
                return

    def read(self, name: bytes) -> SentFile:
        """Return a file. Raises `GitFailed` or `OSError` when it cannot be read."""
        mode, blob = self._files[name]
        with self._lock:
            try:
                return SentFile(name, mode, self._blob(blob))
            except BaseException:
                self._end()  # it may be in the middle of an answer
                raise

    def _blob(self, blob: str) -> bytes:
        if self._reader is None:
            self._reader = self._git.start("cat-file", "--batch")
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(blob.encode("ascii") + b"\n")
        reader.stdin.flush()
        head = reader.stdout.readline().split()
        if len(head) != 3:
            raise GitFailed("cat-file", reader.poll() or 0, f"there is no blob {blob} any more")
        size = int(head[2])
        content = reader.stdout.read(size)
        if len(content) < size or reader.stdout.read(1) != b"\n":
            raise GitFailed("cat-file", reader.poll() or 0, f"blob {blob} was cut off")
        return content

    def _end(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with reader:  # which waits for it
                reader.kill()

    def close(self) -> None:
        """End the git that reads."""
        with self._lock:
            self._end()


def name_of(inside: str, path: bytes) -> bytes:
    """Return a path from where the run was started as one from the top."""
    return os.path.normpath(os.path.join(os.fsencode(inside), path))  # noqa: PTH118  (bytes)
