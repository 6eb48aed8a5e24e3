"""The files of a checkout that patches are about, as they are on disk now.

Owns how they are read, also where something else is in their place. Imported by
``hmz_mp.worktrees`` only. Names are bytes, which ``pathlib`` does not take.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hmz_mp.worktrees.patches import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from hmz_mp.worktrees.checkout import Checkout
    from hmz_mp_worker.git import Git

__all__ = ["SPECIAL", "Disk", "Signature", "files_below", "signature", "staged_entries"]

SPECIAL = Entry("special", "")  # neither a file nor a link nor a directory
Signature = tuple[int, ...]


@dataclass(slots=True)
class Disk:
    """What is at some paths of a checkout.

    ``entries`` has what git would make of each, ``None`` where there is no file; ``signatures``
    tell later whether it was changed. ``obstacles`` has, for a path whose directory cannot be,
    what is in the way.
    """

    entries: dict[bytes, Entry | None] = field(default_factory=dict)
    signatures: dict[bytes, Signature | None] = field(default_factory=dict)
    obstacles: dict[bytes, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, checkout: Checkout, base: str, index: str, paths: Iterable[bytes]) -> Disk:
        """Look at ``paths``; ``index`` is a scratch file. The user's own index is only read.

        The scratch index begins as the base, and knows no file's time: every file is read, and
        nothing that the user has told git to overlook is overlooked.
        """
        disk = cls()
        top = os.fsencode(checkout.top)
        present = []
        for path in paths:
            obstacle = _obstacle(top, path)
            if obstacle is not None:
                disk.obstacles[path] = obstacle
            mode = None if obstacle is not None else disk._look(top, path)
            if mode is not None and (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                present.append(path)
            elif mode is None or stat.S_ISDIR(mode):
                disk.entries[path] = None
            else:
                disk.entries[path] = SPECIAL
        git = checkout.git(index)
        git.run("read-tree", base)
        update = ("update-index", "-z", "--add", "--replace", "--stdin")
        git.run(*update, stdin=b"".join(path + b"\0" for path in present))
        staged = staged_entries(git, set(present))
        disk.entries |= {path: staged[path] for path in present}
        absent = {path for path, entry in disk.entries.items() if entry is None}
        if absent:
            disk.entries |= _left_out(checkout, absent)
        return disk

    def _look(self, top: bytes, path: bytes) -> int | None:
        found = signature(top + b"/" + path)
        self.signatures[path] = found
        return None if found is None else found[0]


def signature(path: bytes) -> Signature | None:
    """Return what changes when the file at ``path`` does; its mode first."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    # Not the time of its inode's last change, which a link to it changes too.
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino


def _obstacle(top: bytes, path: bytes) -> bytes | None:
    """Return the nearest of the directories of ``path`` to the top that is there and is none."""
    at = path.find(b"/")
    while at >= 0:
        try:
            mode = os.lstat(top + b"/" + path[:at]).st_mode
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(mode):
            return path[:at]
        at = path.find(b"/", at + 1)
    return None


def staged_entries(git: Git, wanted: Set[bytes]) -> dict[bytes, Entry]:
    """Return those of the ``wanted`` paths that are in git's index."""
    return _staged(git.names("ls-files", "-z", "--stage"), wanted)


def _staged(listed: Iterable[bytes], wanted: Set[bytes]) -> dict[bytes, Entry]:
    found = {}
    for line in listed:
        head, _, path = line.partition(b"\t")
        if path in wanted:
            mode, blob, _ = head.decode("ascii").split(" ")
            found[path] = Entry(mode, blob)
    return found


def _left_out(checkout: Checkout, absent: set[bytes]) -> dict[bytes, Entry]:
    """Return those that a sparse checkout has left out: they are not deleted."""
    marked = checkout.git().names("ls-files", "-z", "-t", "--stage")
    return _staged([line[2:] for line in marked if line.startswith(b"S ")], absent)


def files_below(directory: bytes) -> list[bytes]:
    """Return everything below a directory that is no directory, relative to it."""
    found = []
    for folder, folders, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        prefix = b"" if inside == b"." else inside + b"/"
        links = [one for one in folders if stat.S_ISLNK(os.lstat(folder + b"/" + one).st_mode)]
        found += [prefix + name for name in files + links]
    return found
