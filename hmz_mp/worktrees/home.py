"""The directory that holds one run's worktrees, from before the first is made until none is left.

Owns their removal, by the run itself or, after it was killed, by `hmz-mp gc`. Imported by
``hmz_mp.worktrees`` and by commands.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    """What `clear_left_behind` did about one run.

    ``is_alive`` for a run that goes on, and keeps what it has.
    """

    name: str
    worktrees: int = 0
    is_alive: bool = False
    problems: tuple[str, ...] = ()


def clear_left_behind(start: Path, *, pretend: bool = False) -> Iterator[Cleared]:
    """Remove what runs that were started in ``start`` have left; those that go on are let alone.

    With ``pretend`` nothing is removed, and only said.
    """
    directory = worktrees_directory(start.resolve())
    for name in owned_names(directory):
        try:
            ownership = Ownership(directory, name)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            yield Cleared(name, is_alive=True)
            continue
        with ownership:
            count = len(list(_directories(ownership.home)))
            if pretend:
                yield Cleared(name, count)
            elif not _workers_have_ended(ownership.home):
                yield Cleared(name, is_alive=True)
            else:
                problems = _clear(ownership)
                if not problems:
                    ownership.end()
                yield Cleared(name, count, problems=tuple(problems))


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


def _clear(ownership: Ownership) -> list[str]:
    about, home = ownership.about, ownership.home
    problems = []
    if "git_dir" in about and Path(about["git_dir"]).is_dir():
        git = Git(about["top"], git_dir=about["git_dir"])
        problems += _remove_worktrees(git, home, str(about.get("run", ownership.home.name)))
    try:
        remove_tree(str(home))
    except OSError as error:
        problems.append(f"{str(home)!r} could not be removed: {error}")
    return problems


def _remove_worktrees(git: Git, home: Path, name: str) -> list[str]:
    problems = []
    for directory, admin in _known_to_git(git, home, name):
        try:
            if directory is None:
                remove_tree(str(admin))
            else:
                remove(git, str(directory), str(admin))
        except (OSError, GitFailed) as error:
            problems.append(f"{str(directory or admin)!r} could not be removed: {error}")
    return problems


def _known_to_git(git: Git, home: Path, name: str) -> Iterator[tuple[Path | None, Path]]:
    """Yield the worktrees below ``home``, and what the repository keeps of each.

    There is no directory for one whose making was cut short before it had any.
    """
    try:
        admins = list(Path(git.common, "worktrees").iterdir())
    except OSError:
        return
    for admin in admins:
        with suppress(OSError):
            link = admin / "gitdir"
            if not link.exists():
                if os.fsdecode((admin / "locked").read_bytes()).strip() == _reason(name):
                    yield None, admin
                continue
            directory = Path(admin, os.fsdecode(link.read_bytes()).rstrip("\n")).parent
            if home in Path(os.path.normpath(directory)).parents:
                yield directory, admin


def _reason(name: str) -> str:
    return f"hmz-mp: {name}"
