"""One turn's directory, made of the files that came with it, and read for what was changed there.

All copies of a run are below one directory: the run's own, or one that the worker's engine has.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.holding import Place, State, lock_of
from hmz_mp_worker.scratch import SCRATCH
from hmz_mp_worker.shipping.differing import NoGit, difference
from hmz_mp_worker.shipping.parcels import (
    Parcel,
    SentFile,
    content_of,
    decode_parcel,
    encode,
    named,
    write_file,
)
from hmz_mp_worker.worktrees.removal import alone, remove_tree
from hmz_mp_worker.worktrees.staging import TooMuch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hmz_mp_worker.shipping.parcels import Declared, Setup

__all__ = ["Copy", "CopyFailed", "code_directory", "home_of"]

_EARLIER = 10_000_000_000  # nanoseconds by which files are older than their copy

_Signature = tuple[int, int, int, int, int]
_OTHER = (0, 0, 0, 0, 0)  # that of no file


class CopyFailed(Exception):
    """Raised when a turn could not be given its files, or its changes could not be told."""


class Copy(Place):
    """A directory with a turn's files, owned by the turn."""

    # The whole state, beside a place's: the files as they were sent, and of those that this turn
    # was sent, how they looked once they were written.
    def __init__(self, setup: Setup, home: str, name: str, lock: int) -> None:
        super().__init__(home, name, setup.inside, lock, State())
        self._setup = setup
        self._sent: dict[bytes, SentFile] = {}
        self._signatures: dict[bytes, _Signature] = {}

    @classmethod
    def take(cls, setup: Setup, declared: Declared, parcel: Parcel, session: str | None) -> Copy:
        """Return a directory with the files that were sent and nothing else.

        That of a ``session`` is its own and stays as its last turn left it, with the files added
        that are new to it. Raises `CopyFailed`.
        """
        if parcel.problem:
            raise CopyFailed(parcel.problem)
        try:
            home = home_of(setup)
            name, lock = lock_of(home, session)
        except OSError as error:
            raise CopyFailed(f"the turn's files could not be put anywhere: {error}") from error
        copy = cls(setup, home, name, lock)
        try:
            copy._prepare([*declared.files, *parcel.files], keep=session is not None)
        except BaseException as error:
            copy.give_back()
            if isinstance(error, OSError):
                raise CopyFailed(f"the turn's files could not be written: {error}") from error
            raise
        return copy

    def _prepare(self, files: list[SentFile], *, keep: bool) -> None:
        if keep and _is_directory(self.directory):
            self._sent = self._read_sent()
        elif self._state.busy or not _cleared(self.directory, self._setup.inside):
            remove_tree(self.directory)
            self._state.generation += 1
        self._state.busy = True
        self._write()
        Path(self.cwd).mkdir(parents=True, exist_ok=True)
        # git would go up from here, and might find the user's checkout.
        Path(self.directory, ".git").write_text(f"gitdir: {self.directory}.git\n", "utf-8")
        new = [file for file in named(files).values() if file.name not in self._sent]
        now = time_ns() - _EARLIER
        for at, file in enumerate(new):
            self._signatures[file.name] = self._put(file, now - at)
        self._sent |= named(new)
        if keep:
            self._write_sent()

    def _put(self, file: SentFile, time: int) -> _Signature:
        """Write a file, older than whatever a turn writes, and than any other in time.

        What an earlier turn of the session has made in its place stays.
        """
        path = Path(self.directory, file.path)
        if os.path.lexists(path):
            return _OTHER
        write_file(self.directory, file)
        os.utime(path, ns=(time, time), follow_symlinks=False)
        return _signature(path) or _OTHER

    # What was sent to a session is needed by later turns of it, which may be another process's.

    def _read_sent(self) -> dict[bytes, SentFile]:
        with suppress(OSError, msgspec.MsgspecError):
            return named(decode_parcel(Path(f"{self.directory}.sent").read_bytes()).files)
        return {}

    def _write_sent(self) -> None:
        Path(f"{self.directory}.sent").write_bytes(encode(Parcel(list(self._sent.values()))))

    # What was changed.

    def patch(self) -> bytes:
        """Return what differs from what was sent, new files that are not ignored too.

        Raises `CopyFailed`.
        """
        if not _is_directory(self.directory):
            raise CopyFailed("the changes cannot be told: the turn's directory is gone")
        try:
            changed = self._changed()
            if not changed and self._names() <= self._sent.keys():
                return b""
            return difference(self.directory, self._setup, self._sent.values())
        except NoGit as error:
            raise CopyFailed(
                "the turn changed files, and git, which tells what, is not on PATH here"
            ) from error
        except (GitFailed, OSError, TooMuch) as error:
            raise CopyFailed(f"the changes could not be taken: {error}") from error

    def _changed(self) -> bool:
        return any(self._is_changed(file) for file in self._sent.values())

    def _is_changed(self, file: SentFile) -> bool:
        path = Path(self.directory, file.path)
        signature = self._signatures.get(file.name)
        if signature is not None and signature == _signature(path):
            return False
        return content_of(path) != (file.mode, file.content)

    def _names(self) -> set[bytes]:
        top = os.fsencode(self.directory)
        return {name[len(top) + 1 :] for name in _files_below(top)} - {b".git"}


def home_of(setup: Setup) -> str:
    """Return the directory of a run's copies; it is there. Raises `CopyFailed`."""
    if setup.home:
        return setup.home
    scratch = os.environ.get(SCRATCH)
    if not scratch:
        raise CopyFailed(f"{SCRATCH}, where turns' files go, is not set any more")
    home = Path(scratch, setup.label)
    for directory in (home.parent, home):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(home)


def code_directory(setup: Setup, declared: Declared) -> str:
    """Return a directory with the declared files, to import from: one for all turns of a run."""
    home = home_of(setup)
    directory = f"{home}/code-{declared.digest}"
    if not _is_directory(directory):
        with alone(home):
            if not _is_directory(directory):
                half = f"{directory}.half"
                remove_tree(half)  # of a worker that died
                for file in declared.files:
                    write_file(half, file)
                Path(half).mkdir(exist_ok=True)
                Path(half).rename(directory)
    return directory


def _cleared(directory: str, inside: str) -> bool:
    """Remove what is in a directory, but not itself, nor ``inside`` of it; return whether it is so.

    A program that waits for the next turn may be there.
    """
    if not _is_directory(directory):  # a link least of all
        return not os.path.lexists(directory)
    at, kept = Path(directory), list(Path(inside).parts)
    try:
        while True:
            down = kept.pop(0) if kept else None
            for entry in list(at.iterdir()):
                if entry.name != down or not _is_directory(str(entry)):
                    remove_tree(str(entry))
            if down is None or not (at / down).exists():
                return True
            at /= down
    except OSError:
        return False


def _files_below(directory: bytes) -> Iterator[bytes]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)
            else:
                yield entry.path


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(Path(path).lstat().st_mode)
    except OSError:
        return False


def _signature(path: Path) -> _Signature | None:
    try:
        at = path.lstat()
    except OSError:
        return None
    return at.st_mode, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino
