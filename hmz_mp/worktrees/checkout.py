"""The user's checkout: whether worktrees can be had of it, and what they begin with.

Reads the checkout and writes objects to its repository, never its index, its files or a ref.
Imported by ``hmz_mp.worktrees`` only.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp_worker.git import REDIRECTING, Git, GitFailed
from hmz_mp_worker.worktrees.staging import stage_everything, submodules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["OLDEST_GIT", "Checkout"]

OLDEST_GIT = (2, 33)
MOST_UNCOMMITTED = 2 << 30  # bytes that are copied into the repository
_NAMED = 3  # files in a message


@dataclass(frozen=True, slots=True)
class Checkout:
    """A work tree with a commit in it. ``inside`` is where in it the run was started."""

    top: str
    git_dir: str
    inside: str = ""

    @classmethod
    def find(cls, start: Path, who: str = "worktrees need") -> Checkout:
        """Return the checkout around ``start``. Raises `BadInput` when there is none to be used.

        ``who`` begins the sentence that says so.
        """
        set_here = [name for name in REDIRECTING if name in os.environ]
        if set_here:
            raise BadInput(
                f"{set_here[0]} is set, as it is inside git's hooks; an agent's git "
                "would work on that repository, and not on its worktree"
            )
        if shutil.which("git") is None:
            raise BadInput(f"{who} git, and there is none on PATH")
        git = Git(str(start.absolute()))
        _check_version(git, who)
        try:
            top = git.line("rev-parse", "--show-toplevel")
            git_dir = git.line("rev-parse", "--absolute-git-dir")
        except GitFailed as error:
            raise BadInput(
                f"{who} a git checkout, and {str(start)!r} is in none: {error.reason}"
            ) from None
        inside = os.path.relpath(os.path.realpath(start), os.path.realpath(top))
        checkout = cls(top, git_dir, "" if inside == "." else inside)
        checkout._check(who)
        return checkout

    def left_out(self, base: str, paths: Iterable[bytes]) -> list[bytes]:
        """Return those of ``paths``, from where the run was started, that no worktree will have.

        What is behind a link to a directory is taken to be there.
        """
        tree = set(self.git().names("ls-tree", "-r", "-z", "--name-only", base))
        inside = os.fsencode(self.inside)
        missing = []
        for path in paths:
            name = os.path.normpath(inside + b"/" + path if inside else path)
            if name not in tree and not any(one in tree for one in _above(name)):
                missing.append(path)
        return missing

    def git(self, index: str | None = None) -> Git:
        """Return git for it, at its top, with another index if one is given."""
        return Git(self.top, git_dir=self.git_dir, index=index)

    def _check(self, who: str) -> None:
        git = self.git()
        if git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", statuses=(0, 1)).returncode:
            raise BadInput(
                f"the git repository at {self.top!r} has no commits yet, and {who} one: "
                "commit something first"
            )
        unmerged = [name.partition(b"\t")[2] for name in git.names("ls-files", "-z", "--unmerged")]
        if unmerged:
            first = list(dict.fromkeys(unmerged))[:_NAMED]
            names = ", ".join(repr(os.fsdecode(name)) for name in first)
            raise BadInput(
                f"the checkout at {self.top!r} has conflicts of a merge in it "
                f"({names}); resolve them first"
            )

    def submodules(self) -> list[str]:
        """Return the submodules, which are empty directories in worktrees."""
        return sorted(map(os.fsdecode, submodules(self.git())))

    def commit_for(self, base: str) -> str:
        """Return the commit ``base``, or HEAD if git has collected it."""
        asked = ("rev-parse", "--verify", "--quiet")
        found = self.git().run(*asked, base + "^{commit}", statuses=(0, 1, 128))
        return base if found.returncode == 0 else self.git().line(*asked, "HEAD")

    def snapshot(self, index: str) -> str:
        """Return a commit of what is there now: uncommitted changes, and new files not ignored.

        That is HEAD, if there are none. ``index`` is a scratch file. The commit is on no branch.
        """
        mine = self.git().line("rev-parse", "--git-path", "index")
        try:
            shutil.copyfile(os.path.join(self.top, mine), index)  # noqa: PTH118  (surrogates)
        except FileNotFoundError:
            self.git(index).run("read-tree", "HEAD")
        git = self.git(index)
        stage_everything(git, repositories=False, most=MOST_UNCOMMITTED)
        tree = git.line("write-tree")
        if tree == git.line("rev-parse", "HEAD^{tree}"):
            return git.line("rev-parse", "HEAD")
        return git.line(
            *("commit-tree", tree, "-p", "HEAD"),
            stdin=b"The checkout, with what was not committed, as hmz-mp found it\n",
            identity=True,
        )


def _above(name: bytes) -> Iterator[bytes]:
    while name := os.path.dirname(name):  # noqa: PTH120  (bytes)
        yield name


def _check_version(git: Git, who: str) -> None:
    said = re.search(r"(\d+)\.(\d+)[\w.]*", git.line("--version"))
    if said is not None and (int(said[1]), int(said[2])) < OLDEST_GIT:
        needed = ".".join(map(str, OLDEST_GIT))
        raise BadInput(f"{who} git {needed} or later, and this is git {said[0]}")
