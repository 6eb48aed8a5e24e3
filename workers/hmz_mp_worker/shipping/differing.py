"""What a turn made of the files that it was sent, as a patch of git's: the same as a worktree's.

git is given a repository for it, beside the turn's directory, that nothing of the machine's own
settings gets into.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp_worker.git import Git
from hmz_mp_worker.worktrees.removal import remove_tree
from hmz_mp_worker.worktrees.staging import stage_everything
from hmz_mp_worker.worktrees.worktree import DIFF, MOST_CHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hmz_mp_worker.shipping.parcels import SentFile, Setup

__all__ = ["NoGit", "difference"]

_BASE = "refs/heads/base"
# What is sent is what git keeps, so git is to keep what is there.
_SETTINGS = f"""
[core]
    autocrlf = false
    fileMode = true
    symlinks = true
    ignoreCase = false
    precomposeUnicode = false
    attributesFile = {os.devnull}
    excludesFile = {os.devnull}
"""


class NoGit(Exception):
    """Raised when there is no git on this machine."""


def difference(directory: str, setup: Setup, sent: Iterable[SentFile]) -> bytes:
    """Return the patch from what was ``sent`` to what is in ``directory``.

    Raises `NoGit`, `GitFailed`, `TooMuch`, `OSError`.
    """
    if shutil.which("git") is None:
        raise NoGit
    git_dir = f"{directory}.git"
    remove_tree(git_dir)
    try:
        git = Git(directory, git_dir=git_dir)
        git.run("init", "--quiet", "--template=", f"--object-format={setup.hashes}")
        with Path(git_dir, "config").open("a", encoding="utf-8") as file:
            file.write(_SETTINGS)
        info = Path(git_dir, "info")
        info.mkdir(exist_ok=True)
        (info / "exclude").write_bytes(setup.excludes)
        git.run("fast-import", "--quiet", stdin=_stream(sent))
        git.run("read-tree", _BASE)
        stage_everything(git, repositories=True, most=MOST_CHANGED)
        return git.run("diff-index", "--cached", *DIFF, _BASE, "--").stdout
    finally:
        remove_tree(git_dir)


def _stream(sent: Iterable[SentFile]) -> bytes:
    """Return a commit of files as ``git fast-import`` reads it."""
    head = f"commit {_BASE}\ncommitter hmz-mp <hmz-mp@localhost> 0 +0000\ndata 0\n\n"
    parts = [head.encode("ascii")]
    for file in sent:
        parts += [
            b"M %s inline %s\n" % (file.mode.encode("ascii"), _quoted(file.name)),
            b"data %d\n" % len(file.content),
            file.content,
            b"\n",
        ]
    return b"".join(parts)


def _quoted(name: bytes) -> bytes:
    inner = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + inner + b'"'
