"""What a name on disk is: a file of ours, a link, a binary. Imported by ``hmz_mp.items`` only.

Names are bytes, which ``pathlib`` does not take.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from hmz_mp.items.directories import Inherited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["NEVER", "is_binary", "is_file", "regular_files"]

NEVER = frozenset({b".git", b".hmz-mp"})
_BINARY_PROBE = 8 * 1024


def regular_files(root: bytes, names: Iterable[bytes]) -> Iterator[bytes]:
    """Yield those of ``names`` that are regular files below ``root``.

    Passed over are what is deleted, a directory (a submodule is one) or a link, and what can be
    reached only through a linked directory.
    """
    never = tuple(name + b"/" for name in NEVER)

    def is_link(directory: bytes) -> bool:
        return stat.S_ISLNK(_mode(root + b"/" + directory))

    linked = Inherited(b"", b"/", is_link)
    for name in names:
        if name.startswith(never) or linked.above(name):
            continue
        if stat.S_ISREG(_mode(root + b"/" + name)):
            yield name


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


def is_file(path: bytes) -> bool:
    """Return whether ``path`` is a regular file or a link to one; never raises."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116  (bytes)
    except (OSError, ValueError):
        return False


def is_binary(path: bytes) -> bool:
    """Return whether the file has a NUL byte in its first 8 KiB.

    One that cannot be read is not called binary: its turn then fails with the reason, which is
    better than an item that is quietly missing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return b"\0" in os.read(descriptor, _BINARY_PROBE)
    except OSError:
        return False
    finally:
        os.close(descriptor)
