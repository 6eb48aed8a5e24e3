"""One git worktree: taken, put back to the base, and read for what was changed in it.

All worktrees of a run are below its ``home`` directory.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from hmz_mp_worker.git import Git, GitFailed
from hmz_mp_worker.holding import Place, State, lock_of
from hmz_mp_worker.worktrees.removal import alone, remove
from hmz_mp_worker.worktrees.staging import TooMuch, stage_everything

__all__ = ["DIFF", "MOST_CHANGED", "Setup", "Worktree", "WorktreeFailed"]

# Everything that is to be known of a change, and nothing of the user's settings in it.
DIFF = (
    "--patch-with-raw",
    "--no-abbrev",
    "--full-index",
    "--binary",
    "--find-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=all",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)

MOST_CHANGED = 512 << 20  # bytes in the files that a turn changes; a patch is held in memory
_TRIES = 3
_PAUSE = 0.1  # seconds

# What git keeps of a worktree in which nothing was begun; with more, it is made anew.
_ORDINARY = frozenset(
    {
        "COMMIT_EDITMSG",
        "FETCH_HEAD",
        "HEAD",
        "ORIG_HEAD",
        "commondir",
        "config.worktree",
        "gitdir",
        "index",
        "info",
        "locked",
        "logs",
        "refs",
    }
)


class Setup(msgspec.Struct, frozen=True):
    """What the worktrees of one run are made from.

    ``top`` and ``git_dir`` are the checkout's, ``base`` the commit that every worktree begins
    with, and ``inside`` the directory, relative to the top, that turns run in. All worktrees are
    below ``home``, an absolute directory that is the run's own.
    """

    home: str
    top: str
    git_dir: str
    base: str
    inside: str = ""
    label: str = ""


class WorktreeFailed(Exception):
    """Raised when a turn could not be given a worktree, or its changes could not be taken."""


class _State(State):
    """What a worktree's file says beside that."""

    git_dir: str = ""
    link: str = ""  # what the worktree's .git file said when it was made


class Worktree(Place):
    """One worktree, owned by one turn."""

    _state: _State

    def __init__(self, setup: Setup, name: str, lock: int) -> None:
        super().__init__(setup.home, name, setup.inside, lock, _State())
        self._setup = setup

    @classmethod
    def take(cls, setup: Setup, session: str | None = None) -> Worktree:
        """Return a worktree at the base: the first that nobody uses, or a new one.

        That of a ``session`` is its own, and stays as the session's last turn left it.
        """
        name, lock = lock_of(setup.home, session)
        worktree = cls(setup, name, lock)
        try:
            worktree._prepare(keep=session is not None)
        except BaseException as error:
            worktree._let_go()
            if isinstance(error, (GitFailed, OSError)):
                raise WorktreeFailed(f"no worktree could be made: {error}") from error
            raise
        return worktree

    def _prepare(self, *, keep: bool) -> None:
        state = self._state
        is_made = self._is_intact()
        if not (keep and is_made):
            ready = is_made and not state.busy and self._reset()
            if not ready:
                self._replace()
        state.busy = True
        self._write()
        Path(self.cwd).mkdir(parents=True, exist_ok=True)

    def _is_intact(self) -> bool:
        """Whether the directory is there, and git would find the worktree from inside of it.

        Without its .git file, git would go up and find the checkout of the user.
        """
        directory = Path(self.directory)
        try:
            real = stat.S_ISDIR(directory.lstat().st_mode)
            return real and bool(self._state.link) and _link(directory) == self._state.link
        except OSError:
            return False

    def _reset(self) -> bool:
        """Put the worktree back to the base; returns whether that could be done."""
        admin = Path(self._state.git_dir)
        try:
            for lock in admin.glob("*.lock"):
                lock.unlink()
            if not {entry.name for entry in admin.iterdir()} <= _ORDINARY:
                return False
            self._git().run("checkout", "--quiet", "--force", "--detach", self._setup.base, "--")
            self._git().run("clean", "--quiet", "-ffdx")
        except (OSError, GitFailed):
            return False
        return True

    def _replace(self) -> None:
        """Make the worktree anew, in a directory that nobody was in before."""
        state, setup = self._state, self._setup
        git = Git(setup.top, git_dir=setup.git_dir)
        if state.link or state.busy:
            with suppress(GitFailed, OSError):  # then it goes with all of them, at the end
                remove(git, self.directory, state.git_dir)
            state.generation += 1
        while os.path.lexists(self.directory):
            state.generation += 1
        state.link = state.git_dir = ""
        state.busy = True
        self._write()
        self._add(git)
        link = _link(Path(self.directory))
        state.link = link
        admin = link.removeprefix("gitdir: ").rstrip("\n")
        state.git_dir = os.path.normpath(f"{self.directory}/{admin}" if admin[0] != "/" else admin)
        self._write()
        self._git().run("reset", "--quiet", "--hard")

    def _add(self, git: Git) -> None:
        options = ("--quiet", "--detach", "--force", "--no-checkout", "--lock")
        reason = f"hmz-mp: {self._setup.label or self._setup.home}"
        for tries_left in reversed(range(_TRIES)):
            try:
                with alone(git.common):
                    git.run(
                        *("worktree", "add", *options, "--reason", reason),
                        *(self.directory, self._setup.base),
                    )
                return
            except GitFailed:  # somebody else may be making a worktree just now
                if not tries_left:
                    raise
                remove(git, self.directory)
                time.sleep(_PAUSE)

    def _git(self) -> Git:
        return Git(self.directory, git_dir=self._state.git_dir)

    def patch(self) -> bytes:
        """Return what differs from the base: committed or not, new files that are not ignored too.

        A repository inside is taken as plain files. Raises `WorktreeFailed`.
        """
        if not self._is_intact():
            raise WorktreeFailed("the changes cannot be told: the worktree's .git file is changed")
        try:
            (Path(self._state.git_dir) / "index.lock").unlink(missing_ok=True)
            git = self._git()
            stage_everything(git, repositories=True, most=MOST_CHANGED)
            return git.run("diff-index", "--cached", *DIFF, self._setup.base, "--").stdout
        except (GitFailed, OSError, TooMuch) as error:
            raise WorktreeFailed(f"the changes could not be taken: {error}") from error


def _link(directory: Path) -> str:
    return os.fsdecode((directory / ".git").read_bytes())
