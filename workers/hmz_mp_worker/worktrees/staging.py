"""Bringing an index up to what is on disk, whatever is there. The coordinator imports it too."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hmz_mp_worker.git import Git

__all__ = ["TooMuch", "stage_everything", "submodules"]

_SUBMODULE = b"160000 "
_UPDATE = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
_REMOVE = ("update-index", "-z", "--force-remove", "--stdin")


class TooMuch(Exception):
    """Raised when the files that would be staged hold more bytes than they may."""

    def __init__(self, size: int, most: int, largest: bytes) -> None:
        super().__init__(size, most, largest)
        self.size = size
        self.most = most
        self.largest = largest

    def __str__(self) -> str:
        return (
            f"{self.size >> 20:,} MB of new or changed files, more than {self.most >> 20:,} MB; "
            f"the largest is {os.fsdecode(self.largest)!r}"
        )


def stage_everything(git: Git, *, repositories: bool, most: int) -> None:
    """Put into the index what differs from it: files that are not ignored, new ones too.

    What is in ``repositories`` inside is taken as plain files, or else left out. Submodules stay
    what they are in the index. Raises `TooMuch` for more than ``most`` bytes, which git would
    store.
    """
    top = os.fsencode(git.where)
    changed: list[bytes] = []
    gone: list[bytes] = []
    listing = ("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
    for name in dict.fromkeys(git.names(*listing)):
        if name.endswith(b"/"):
            if repositories:
                changed += _files_of_repository(top, name[:-1])
        elif _is_file(top + b"/" + name):
            changed.append(name)
        else:
            gone.append(name)
    _weigh(top, changed, most)
    if gone:  # or a directory is in its place, as that of a submodule always is
        kept = submodules(git)
        git.run(*_REMOVE, stdin=_terminated(name for name in gone if name not in kept))
    if changed:
        git.run(*_UPDATE, stdin=_terminated(changed))


def submodules(git: Git) -> set[bytes]:
    """Return the submodules in the index."""
    staged = git.names("ls-files", "-z", "--stage")
    return {entry.partition(b"\t")[2] for entry in staged if entry.startswith(_SUBMODULE)}


def _terminated(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)


def _weigh(top: bytes, names: Iterable[bytes], most: int) -> None:
    sizes = {name: _size(top + b"/" + name) for name in names}
    if sum(sizes.values()) > most:
        raise TooMuch(sum(sizes.values()), most, max(sizes, key=lambda name: sizes[name]))


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _is_file(path: bytes) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _files_of_repository(top: bytes, directory: bytes) -> Iterator[bytes]:
    for folder, folders, files in os.walk(top + b"/" + directory):
        folders[:] = [one for one in folders if one != b".git"]
        inside = os.path.relpath(folder, top)
        links = [one for one in folders if os.path.islink(folder + b"/" + one)]  # noqa: PTH114
        for name in files + links:
            if name != b".git":
                yield inside + b"/" + name
