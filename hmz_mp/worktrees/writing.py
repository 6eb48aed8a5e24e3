"""Writing the files of one patch into the checkout: all of them or none.

Owns how a file is replaced, made and removed without ever touching one that is not as expected.
Imported by ``hmz_mp.worktrees`` only. Names are bytes, which ``pathlib`` does not take.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from hmz_mp.worktrees.disk import Signature, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hmz_mp.worktrees.patches import Change

__all__ = ["FileMoved", "Writer"]


class FileMoved(Exception):
    """Raised when a file is not as it was when it was looked at; nothing was written then."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        super().__init__(path)


class Writer:
    """Writes patches into ``top``, their new files being ready below ``stage``.

    ``signatures`` has what each path was when it was looked at, and is kept up. ``undo`` is an
    empty directory. No directory is removed that ``kept``, the one runs are started in, needs.
    """

    # The whole state: the signatures, and what takes back the patch that is being written.
    def __init__(
        self,
        top: str,
        stage: str,
        undo: str,
        signatures: dict[bytes, Signature | None],
        kept: str = "",
    ) -> None:
        self._top = os.fsencode(top)
        self._stage = os.fsencode(stage)
        self._undo = os.fsencode(undo)
        self._kept = os.fsencode(kept)
        self._signatures = signatures
        self._steps: list[Callable[[], object]] = []
        self._saved = 0

    def write(self, changes: Sequence[Change]) -> None:
        """Write one patch: what goes first, then what comes.

        Raises `FileMoved`, or `OSError`; then, as after an interruption, every file is as before.
        """
        before = {change.path: self._signatures.get(change.path) for change in changes}
        self._steps.clear()
        try:
            for change in sorted(changes, key=lambda change: change.after is not None):
                self._check(change.path)
                if change.after is None:
                    self._remove(change.path)
                else:
                    self._put(change)
                self._signatures[change.path] = signature(self._at(change.path))
        except BaseException:
            for step in reversed(self._steps):
                with suppress(OSError):
                    step()
            for path in before:
                self._signatures[path] = signature(self._at(path))
            raise
        finally:
            self._forget()

    def _at(self, path: bytes) -> bytes:
        return self._top + b"/" + path

    def _check(self, path: bytes) -> None:
        at = self._top
        for part in path.split(b"/")[:-1]:
            at += b"/" + part
            if os.path.islink(at):  # noqa: PTH114
                raise FileMoved(path)
        found, known = signature(self._at(path)), self._signatures.get(path)
        if _is_directory(known):  # it goes once it is empty
            found = None if _is_directory(found) else found
            known = None
        if found != known:
            raise FileMoved(path)

    def _remove(self, path: bytes) -> None:
        place, saved = self._at(path), self._next_saved()
        _move(place, saved)
        self._steps.append(lambda: _put_back(saved, place))
        self._remove_empty(os.path.dirname(path))  # noqa: PTH120

    def _remove_empty(self, directory: bytes) -> None:
        while directory and not (self._kept + b"/").startswith(directory + b"/"):
            try:
                os.rmdir(self._at(directory))  # noqa: PTH106
            except OSError:  # there is more in it
                return
            directory = os.path.dirname(directory)  # noqa: PTH120

    def _put(self, change: Change) -> None:
        place, ready = self._at(change.path), self._stage + b"/" + change.path
        known = self._signatures.get(change.path)
        directory = os.path.dirname(change.path)  # noqa: PTH120
        if known is None or _is_directory(known):
            self._steps.append(lambda: self._remove_empty(directory))
            os.makedirs(self._at(directory), exist_ok=True)  # noqa: PTH103
            if os.path.isdir(place):  # noqa: PTH112
                os.rmdir(place)  # noqa: PTH106  # what was in it has gone by this patch
                self._steps.append(lambda: os.mkdir(place))  # noqa: PTH102
            _create(ready, place)
            self._steps.append(lambda: os.unlink(place))  # noqa: PTH108
            return
        if change.before is not None and change.after is not None and stat.S_ISREG(known[0]):
            _keep_mode(ready, known[0], same=change.before.mode == change.after.mode)
        saved = self._next_saved()
        _link(place, saved)
        self._steps.append(lambda: _move(saved, place))
        _move(ready, place)

    def _next_saved(self) -> bytes:
        self._saved += 1
        return self._undo + b"/%d" % self._saved

    def _forget(self) -> None:
        for number in range(1, self._saved + 1):
            with suppress(FileNotFoundError):
                os.unlink(self._undo + b"/%d" % number)  # noqa: PTH108
        self._saved = 0
        self._steps.clear()


def _is_directory(found: Signature | None) -> bool:
    return found is not None and stat.S_ISDIR(found[0])


def _keep_mode(ready: bytes, mode: int, *, same: bool) -> None:
    """Give a new version of a file the permissions of the old one, if git sees no difference."""
    if same and stat.S_ISREG(os.lstat(ready).st_mode):
        os.chmod(ready, stat.S_IMODE(mode))  # noqa: PTH101


def _link(place: bytes, saved: bytes) -> None:
    try:
        os.link(place, saved, follow_symlinks=False)
    except (OSError, NotImplementedError):  # another file system, or one without links
        shutil.copy2(place, saved, follow_symlinks=False)


def _create(ready: bytes, place: bytes) -> None:
    """Make a file that is not there. Raises `FileMoved` if one has come meanwhile."""
    try:
        os.link(ready, place, follow_symlinks=False)
    except FileExistsError:
        raise FileMoved(place) from None
    except (OSError, NotImplementedError):  # as above
        if os.path.lexists(place):
            raise FileMoved(place) from None
        _move(ready, place)
    else:
        os.unlink(ready)  # noqa: PTH108


def _move(source: bytes, target: bytes) -> None:
    """Put ``source`` in the place of ``target``, at once."""
    try:
        os.replace(source, target)  # noqa: PTH105
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target + b".hmz-mp-%d" % os.getpid()
        try:
            shutil.copy2(source, beside, follow_symlinks=False)
            os.replace(beside, target)  # noqa: PTH105
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(beside)  # noqa: PTH108
            raise
        os.unlink(source)  # noqa: PTH108


def _put_back(saved: bytes, place: bytes) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
    _move(saved, place)
