"""Files as git sees them, one process per question and none per file.

Imported by ``hmz_mp.items`` only. Names are bytes, relative to the directory asked about, and
separated by NUL on the way here; git never sees a name of ours.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hmz_mp.errors import BadInput

__all__ = ["Repository"]

_UNTRACKED = ("ls-files", "-z", "--others", "--exclude-standard")
_NO_REPOSITORY = "not a git repository"


class Repository:
    """The git work tree that ``start`` is in; what it lists is below ``start`` only."""

    def __init__(self, start: Path, top: Path) -> None:
        self.start = start
        self.top = top

    def __repr__(self) -> str:
        return f"<Repository {str(self.top)!r} from {str(self.start)!r}>"

    @classmethod
    def find(cls, start: Path) -> tuple[Repository | None, str]:
        """Return the repository around ``start``, or ``None`` and why there is none.

        The reason is ``""`` when there is simply no repository, else what git complained of:
        a directory that belongs to somebody else, for instance.
        """
        try:
            asked = _git(start, "rev-parse", "--is-inside-work-tree", "--show-toplevel")
        except FileNotFoundError:
            return None, "git is not installed"
        inside, _, top = asked.stdout.partition(b"\n")
        if asked.returncode == 0 and inside == b"true":
            return cls(start, Path(os.fsdecode(top.removesuffix(b"\n")))), ""
        complaint = _complaint(asked)
        plain = _NO_REPOSITORY in complaint or inside == b"false" or "work tree" in complaint
        return None, "" if plain else complaint

    def files(self) -> set[bytes]:
        """Return what is tracked, and what is untracked and not ignored.

        Not all of it need be a file: a submodule is its directory, and what was deleted is
        still tracked.
        """
        return self._names(*_UNTRACKED, "--cached")

    def changed_since(self, ref: str) -> set[bytes]:
        """Return what differs between where HEAD left ``ref`` (their merge base) and now.

        "Now" is the working tree, untracked files too. Without a common ancestor the comparison
        is with ``ref`` itself. Raises `BadInput` for a ``ref`` that names no commit.
        """
        base = self._merge_base(self._commit(ref))
        diff = ("diff", "-z", "--name-only", "--no-renames", "--diff-filter=d", "--relative")
        plain = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        return self._names(*diff, *plain, base, "--") | self._names(*_UNTRACKED)

    def _commit(self, ref: str) -> str:
        # A leading dash would be read as an option, and no commit's name can begin with one;
        # a caret would negate it.
        if ref and ref[0] not in "-^" and "\0" not in ref:
            asked = _git(self.start, "rev-parse", "--verify", "--quiet", ref + "^{commit}")
            if asked.returncode == 0:
                return asked.stdout.decode("ascii").strip()
        raise BadInput(
            f"--changed-since {ref!r}: the git repository at {str(self.top)!r} has no such "
            f"commit, branch or tag"
        )

    def _merge_base(self, commit: str) -> str:
        asked = _git(self.start, "merge-base", commit, "HEAD")
        found = asked.stdout.decode("ascii").split()
        return found[0] if asked.returncode == 0 and found else commit

    def _names(self, *arguments: str) -> set[bytes]:
        listed = _git(self.start, *arguments)
        if listed.returncode != 0:
            raise BadInput(f"git could not list {str(self.start)!r}: {_complaint(listed)}")
        return set(filter(None, listed.stdout.split(b"\0")))


def _git(where: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # LC_ALL for the words that `find` looks for. Without optional locks, a run that lists files
    # never makes the user's own git command fail.
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", os.fspath(where), *arguments]
    return subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, env=environment, check=False
    )


def _complaint(asked: subprocess.CompletedProcess[bytes]) -> str:
    lines = os.fsdecode(asked.stderr).strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else f"exit status {asked.returncode}"
