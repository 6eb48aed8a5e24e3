"""Removing a worktree, whatever became of it, and who may do so. The coordinator imports it too."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp_worker.git import Git, GitFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["alone", "remove", "remove_tree"]


@contextmanager
def alone(directory: str) -> Iterator[None]:
    """Let only one process in at a time, for one directory of a repository.

    git makes a worktree in many steps, and every other git that looks at the worktrees meanwhile
    fails over what is not written yet.
    """
    number = os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(number, fcntl.LOCK_UN)
        os.close(number)


def remove_tree(path: str) -> None:
    """Remove a directory, whatever its modes, or the link or file that is in its place."""
    place = Path(path)
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        place.unlink()
        return
    try:
        shutil.rmtree(path)
    except OSError:  # a directory that was made read-only, or that somebody still writes into
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(path)


def remove(git: Git, directory: str, admin: str = "") -> None:
    """Remove a worktree and what the repository knows of it. What is gone already is no error.

    ``git`` is for the repository, ``admin`` the directory where it keeps what it knows.
    """
    # The directory first, and not by git: it may be a link by now, or have lost its .git file.
    remove_tree(directory)
    try:
        with alone(git.common):
            git.run("worktree", "remove", "-f", "-f", directory)
    except GitFailed:
        # It was half made, or is damaged; only what git keeps of it is left, if anything is.
        if admin and Path(admin).parent.name == "worktrees":
            remove_tree(admin)
