"""Running git: never through a shell, never its hooks, never into a repository by accident.

Names are bytes, separated by NUL. Standard library only; workers and the coordinator import it.
"""

from __future__ import annotations

import os
import subprocess
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REDIRECTING", "Git", "GitFailed"]

# Set by git for its hooks, among others. With them, git works on another repository, or on
# another index, than the directory says.
REDIRECTING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
_DROPPED = (
    *REDIRECTING,
    "GIT_PREFIX",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",  # a hook too
    "core.safecrlf": "false",
    "core.splitIndex": "false",
    "apply.ignoreWhitespace": "no",
    "apply.whitespace": "nowarn",
    "rerere.enabled": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_OPTIONS = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]


class GitFailed(Exception):
    """Raised when git ended with a status that was not expected; ``reason`` is what it said."""

    def __init__(self, command: str, returncode: int, reason: str) -> None:
        super().__init__(command, returncode, reason)  # all of them: it is pickled
        self.command = command
        self.returncode = returncode
        self.reason = reason

    def __str__(self) -> str:
        return f"git {self.command}: {self.reason}"


class Git:
    """git for one repository: with ``git_dir`` for that one, else for that around ``where``.

    ``index`` is a file to be used instead of the repository's index.
    """

    def __init__(self, where: str, *, git_dir: str | None = None, index: str | None = None) -> None:
        self.where = where
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in _DROPPED},
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        if git_dir is not None:
            self._environment |= {"GIT_DIR": git_dir, "GIT_WORK_TREE": where}
        if index is not None:
            self._environment["GIT_INDEX_FILE"] = index

    def __repr__(self) -> str:
        return f"<Git {self.where!r}>"

    @cached_property
    def common(self) -> str:
        """The directory that the worktrees of the repository share."""
        found = self.line("rev-parse", "--git-common-dir")
        return found if found.startswith("/") else f"{self.where}/{found}"

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        statuses: Sequence[int] = (0,),
        identity: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end. Raises `GitFailed` for any of the other ``statuses``.

        ``identity`` gives what is committed an author who is no person.
        """
        who = _IDENTITY if identity else {}
        command = ["git", *_OPTIONS, *arguments]
        done = subprocess.run(
            command,
            cwd=self.where,
            env={**self._environment, **who},
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode not in statuses:
            raise GitFailed(arguments[0], done.returncode, _reason(done))
        return done

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that is asked on its stdin, for as long as there is something to ask."""
        command = ["git", *_OPTIONS, *arguments]
        return subprocess.Popen(
            command,
            cwd=self.where,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the user's word to us, and not to it
        )

    def names(self, *arguments: str) -> list[bytes]:
        """Return what a command lists, in fields that end with NUL."""
        return [name for name in self.run(*arguments).stdout.split(b"\0") if name]

    def line(self, *arguments: str, stdin: bytes = b"", identity: bool = False) -> str:
        """Return the one line that a command prints; names in it may hold line ends."""
        done = self.run(*arguments, stdin=stdin, identity=identity)
        return os.fsdecode(done.stdout.removesuffix(b"\n"))


_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "hmz-mp"), ("EMAIL", "hmz-mp@localhost"))
}


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = os.fsdecode(done.stderr).strip().splitlines()
    telling = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines
    if not telling:
        return f"it ended with status {done.returncode}"
    return telling[0].removeprefix("fatal: ").removeprefix("error: ")
