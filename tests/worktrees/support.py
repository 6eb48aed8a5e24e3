"""A real git repository for a test, and short ways to ask it things."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hmz_mp_worker.worktrees.worktree import Setup

Name = str | bytes


class Repository:
    """A repository with files in a directory of its own; names may be any bytes."""

    def __init__(self, top: Path, *options: str) -> None:
        self.top = top
        top.mkdir(parents=True, exist_ok=True)
        # No hooks of a template, and its settings written here: fewer processes.
        self.git("init", "--quiet", "--template=", *options)
        separate = [one for one in options if one.startswith("--separate-git-dir=")]
        git_dir = Path(separate[0].partition("=")[2]) if separate else top / ".git"
        with (git_dir / "config").open("a") as file:
            file.write("[user]\n\tname = somebody\n\temail = somebody@localhost\n")

    def git(self, *arguments: str | bytes, cwd: Path | None = None, status: int = 0) -> bytes:
        """Run git; return what it printed."""
        return run_git(cwd or self.top, *arguments, status=status)

    def place(self, name: Name) -> bytes:
        return os.fsencode(self.top) + b"/" + os.fsencode(name)

    def write(self, name: Name, data: Name = "text\n", mode: int | None = None) -> None:
        write(self.place(name), data, mode)

    def read(self, name: Name) -> bytes:
        with open(self.place(name), "rb") as file:
            return file.read()

    def exists(self, name: Name) -> bool:
        return os.path.lexists(self.place(name))

    def commit(self, message: str = "a commit") -> str:
        """Commit everything; return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()

    def status(self) -> set[bytes]:
        """Return what git says is changed, as lines without NULs."""
        listed = self.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        return set(filter(None, listed.split(b"\0")))

    def staged(self) -> bytes:
        """Return what differs between HEAD and the index."""
        return self.git("diff", "--cached", "--raw")

    def worktrees(self) -> list[bytes]:
        """Return the other worktrees, those whose directory has gone too."""
        listed = self.git("worktree", "list", "--porcelain").split(b"\n")
        return [line for line in listed if line.startswith(b"worktree ")][1:]

    def refs(self) -> bytes:
        return self.git("for-each-ref")

    def tree_file(self, commit: str, name: Name) -> bytes:
        return self.git("show", f"{commit}:".encode() + os.fsencode(name))


def run_git(cwd: Path, *arguments: str | bytes, status: int = 0) -> bytes:
    hidden = {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [b"git", *map(os.fsencode, arguments)],
        cwd=cwd,
        env={**environment, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def write(path: Name, data: Name = "text\n", mode: int | None = None) -> None:
    place = os.fsencode(path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as file:
        file.write(os.fsencode(data))
    if mode is not None:
        os.chmod(place, mode)


def setup_of(repository: Repository, home: Path, base: str | None = None) -> Setup:
    """Return a setup for worktrees in ``home``, which is made."""
    home.mkdir(exist_ok=True)
    return Setup(
        home=str(home),
        top=str(repository.top),
        git_dir=str(repository.top / ".git"),
        base=base or repository.head,
        label="the run",
    )
