"""Temporary folders of agents: conversations, private homes. They go with their agent.

Owns their names, by which those that a killed process has left are told from those in use.
Imported by kinds of agents, and by who clears up.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hmz_mp.core.processes import is_alive, own_start
from hmz_mp_worker.worktrees.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Folder", "left_behind", "remove"]

_NAME = re.compile(r"hmz-mp-(?:chat|homes)-(\d+)-(\d+)-(\d+)-[0-9a-f]{32}\Z")


class Folder:
    """A folder that goes with this object, at the latest at the process's end.

    That of ``chat`` is made by the first worker that puts something there.
    """

    def __init__(self, kind: Literal["chat", "homes"]) -> None:
        owner = f"{_namespace()}-{os.getpid()}-{own_start():.0f}"
        # No one can guess the name, so no one else can have made it.
        name = f"hmz-mp-{kind}-{owner}-{uuid.uuid4().hex}"
        self.path = str(Path(tempfile.gettempdir(), name))
        if kind == "homes":
            Path(self.path).mkdir(mode=0o700)
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __repr__(self) -> str:
        return f"<Folder {self.path!r}>"


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it that ends
        shutil.rmtree(path, ignore_errors=True)


def left_behind() -> Iterator[Path]:
    """Yield the folders of this user whose process is gone.

    Not those of processes whose pids this one cannot tell, as in another container.
    """
    try:
        entries = sorted(Path(tempfile.gettempdir()).iterdir())
    except OSError:
        return
    for path in entries:
        owner = _NAME.match(path.name)
        if owner is None or int(owner[1]) != _namespace() or not _is_ours(path):
            continue
        if not is_alive(int(owner[2]), float(owner[3])):
            yield path


def remove(path: Path) -> None:
    """Remove one of them. Raises `OSError` when that cannot be done."""
    remove_tree(str(path))


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _namespace() -> int:
    """Return what tells apart processes that may have the same pid at the same time, or 0."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # there are no namespaces, or no /proc
        return 0
