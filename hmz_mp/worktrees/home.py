"""The directory that holds one run's worktrees, from before the first is made until none is left.

Owns their removal, by the run itself or, after it was killed, by `hmz-mp gc`. Imported by
``hmz_mp.worktrees`` and by commands.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.worktrees.owning import Ownership, owned_names, worktrees_directory
from hmz_mp_worker.git import Git, GitFailed
from hmz_mp_worker.worktrees.removal import remove, remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hmz_mp.worktrees.checkout import Checkout

__all__ = ["Cleared", "Home", "clear_left_behind"]

_LOOK_SECONDS = 0.02
_WORKERS_END = 10.0  # seconds that a killed run's workers are given to end; they take half of one


class Home:
    """One run's directory of worktrees: made empty; `remove` ends it with all that is in it."""

    def __init__(self, start: Path, name: str, checkout: Checkout) -> None:
        self._ownership = _own(worktrees_directory(start.resolve()), name)
        self._ownership.note(pid=os.getpid(), run=name, top=checkout.top, git_dir=checkout.git_dir)
        self.path = self._ownership.home
        self.path.mkdir(exist_ok=True)

    def __repr__(self) -> str:
        return f"<Home {str(self.path)!r}>"

    def remove(self) -> list[str]:
        """Remove the worktrees and everything else; returns what could not be, as lines."""
        problems = _clear(self._ownership)
        if problems:
            self._ownership.release()
        else:
            self._ownership.end()
        return problems


def _own(directory: Path, name: str) -> Ownership:
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        ignored = directory.parent / ".gitignore"
        with suppress(FileExistsError), ignored.open("x", encoding="ascii") as file:
            file.write("*\n")
        try:
            return Ownership(directory, name)
        except FileNotFoundError:  # the last of other runs has just taken the directory with it
            continue


@dataclass(frozen=True, slots=True)
class Cleared:
    """What `clear_left_behind` did about one run, which was started in ``start``.

    ``is_alive`` for a run that goes on, and keeps what it has.
    """

    name: str
    worktrees: int = 0
    is_alive: bool = False
    problems: tuple[str, ...] = ()
    start: Path = field(default=Path(), compare=False)


def clear_left_behind(start: Path, *, pretend: bool = False) -> Iterator[Cleared]:
    """Remove what runs have left; those that go on are let alone.

    They are those that were started in ``start``, and those with worktrees of the repository
    around it. With ``pretend`` nothing is removed, and only said.
    """
    here = worktrees_directory(start.resolve())
    places = {(here, name): None for name in owned_names(here)}
    git = _git_around(start)
    if git is not None:
        places |= {(one.directory.parent.parent, one.directory.parent.name): None
                   for one in _worktrees_of_runs(git)}  # fmt: skip
    for directory, name in places:
        cleared = _clear_one(directory, name, git, pretend=pretend)
        if cleared is not None:
            yield replace(cleared, start=directory.parent.parent)


def _git_around(start: Path) -> Git | None:
    git = Git(str(start.absolute()))
    try:
        git.run("rev-parse", "--git-dir")
    except (GitFailed, OSError):
        return None
    return git


def _clear_one(directory: Path, name: str, git: Git | None, *, pretend: bool) -> Cleared | None:
    if not directory.is_dir():  # somebody has removed it, and git still knows of worktrees
        home = directory / name
        count = len(list(_known_to_git(git, home, name))) if git is not None else 0
        problems = _remove_worktrees(git, home, name) if git is not None and not pretend else []
        return Cleared(name, count, problems=tuple(problems))
    try:
        ownership = Ownership(directory, name)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return Cleared(name, is_alive=True)
    with ownership:
        count = len(list(_directories(ownership.home)))
        if pretend:
            return Cleared(name, count)
        if not _workers_have_ended(ownership.home):
            return Cleared(name, is_alive=True)
        problems = _clear(ownership, git)
        if not problems:
            ownership.end()
        return Cleared(name, count, problems=tuple(problems))


def _workers_have_ended(home: Path) -> bool:
    """Whether nobody uses any of the worktrees, or soon will not any more."""
    deadline = time.monotonic() + _WORKERS_END
    for path in home.glob("*.lock"):
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            while not _locks(lock):
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_SECONDS)
        finally:
            os.close(lock)
    return True


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _directories(home: Path) -> Iterator[Path]:
    """Yield what may be worktrees, and not directories for scratch files."""
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from (one for one in home.iterdir() if (one / ".git").is_file())


def _clear(ownership: Ownership, git: Git | None = None) -> list[str]:
    about, home = ownership.about, ownership.home
    problems = []
    if "git_dir" in about and Path(about["git_dir"]).is_dir():
        git = Git(about["top"], git_dir=about["git_dir"])
    if git is not None:
        problems += _remove_worktrees(git, home, ownership.home.name)
    try:
        remove_tree(str(home))
    except OSError as error:
        problems.append(f"{str(home)!r} could not be removed: {error}")
    return problems


def _remove_worktrees(git: Git, home: Path, name: str) -> list[str]:
    problems = []
    for one in _known_to_git(git, home, name):
        try:
            remove(git, str(one.directory), str(one.admin))
        except (OSError, GitFailed) as error:
            problems.append(f"{str(one.directory)!r} could not be removed: {error}")
    return problems


class _Known(NamedTuple):
    """A worktree, and where the repository keeps what it knows of it."""

    directory: Path
    admin: Path


def _known_to_git(git: Git, home: Path, name: str) -> list[_Known]:
    """Return the worktrees below ``home``; what was begun and got no directory is removed."""
    for admin in _admins(git):
        with suppress(OSError):
            locked = os.fsdecode((admin / "locked").read_bytes()).strip()
            if locked == f"hmz-mp: {name}" and not (admin / "gitdir").exists():
                remove_tree(str(admin))
    return [one for one in _worktrees_of_runs(git) if one.directory.parent == home]


def _worktrees_of_runs(git: Git) -> list[_Known]:
    """Return the worktrees of the repository that runs have made, also those that are gone."""
    found = []
    for admin in _admins(git):
        with suppress(OSError):
            link = os.fsdecode((admin / "gitdir").read_bytes()).rstrip("\n")
            directory = Path(os.path.normpath(admin / link)).parent
            if directory.parts[-4:-2] == (".hmz-mp", "worktrees"):
                found.append(_Known(directory, admin))
    return found


def _admins(git: Git) -> list[Path]:
    try:
        return sorted(Path(git.common, "worktrees").iterdir())
    except OSError:
        return []
