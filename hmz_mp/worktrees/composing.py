"""Putting patches together, in order, three-way: what each makes of the files, or its conflicts.

Owns what the files are after the patches so far. It writes to a scratch index, never to the
checkout. Imported by ``hmz_mp.worktrees`` only.

A file that is as the patch knew it becomes what the patch has made of it. Only where it is not
is git asked to merge; so patches about different files cost no process.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

from hmz_mp.worktrees.disk import SPECIAL, Disk, files_below, staged_entries
from hmz_mp.worktrees.patches import Change, Entry, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set

    from hmz_mp.worktrees.checkout import Checkout

__all__ = ["Composer", "Conflict"]


class Conflict(Exception):
    """Raised when a patch does not fit: at which paths, and with whose changes.

    ``others`` are the items whose patches changed these paths; without any, it was the user.
    """

    def __init__(self, paths: Sequence[bytes], others: Iterable[str] = ()) -> None:
        self.paths = tuple(paths)
        self.others = tuple(dict.fromkeys(others))
        super().__init__(self.paths, self.others)


class Composer:
    """The files that patches are about, after those that were added.

    Its whole state: the entry of each path; whose patch has changed it; how many files there are
    below each directory of these; and which entries the scratch index does not have yet.
    ``missing`` are blobs that the repository has no more, or never had.
    """

    def __init__(
        self,
        checkout: Checkout,
        base: str,
        scratch: str,
        disk: Disk,
        missing: Set[str] = frozenset(),
    ) -> None:
        self.current: dict[bytes, Entry | None] = {}
        self._authors: dict[bytes, str] = {}
        self._below: Counter[bytes] = Counter()
        self._unwritten: dict[bytes, Entry | None] = {}
        self._checkout = checkout
        self._base = base
        self._disk = disk
        self._missing = missing
        self._index = f"{scratch}/merge.index"
        self._kept = f"{scratch}/merge.index.kept"
        self._git = checkout.git(self._index)
        self._is_begun = False
        for path, entry in disk.entries.items():
            self._set(path, entry)

    def credit(self, item_id: str, changes: Iterable[Change]) -> None:
        """Note that an item's patch is in the files already."""
        for change in changes:
            self._authors[change.path] = item_id

    def add(
        self, item_id: str, changes: Sequence[Change], text: Callable[[], bytes] | None
    ) -> list[Change]:
        """Put one patch on top; returns what it changes now. Raises `Conflict`, changing nothing.

        ``text`` returns the patch, which is only wanted where there is something to merge;
        ``None`` is for what may not be merged.
        """
        now = {change.path: self.current[change.path] for change in changes}
        differing = [one for one in changes if now[one.path] not in (one.before, one.after)]
        if any(one.after is not None and one.after.blob in self._missing for one in changes):
            differing = list(changes)  # git makes the files again, of the patch
        if not differing:
            after = {change.path: change.after for change in changes}
        elif text is None:
            raise self._conflict([change.path for change in differing])
        else:
            after = self._merged(changes, differing, text)
        result = [Change(path, now[path], entry) for path, entry in after.items()]
        result = [change for change in result if change.before != change.after]
        self._replace(result)
        self.credit(item_id, result)
        return result

    def _conflict(self, paths: Sequence[bytes]) -> Conflict:
        return Conflict(paths, [self._authors[path] for path in paths if path in self._authors])

    # The shape of the tree: nothing is both a file and a directory.

    def _replace(self, changes: Sequence[Change]) -> None:
        ordered = sorted(changes, key=lambda change: change.after is not None)  # what goes, first
        for change in ordered:
            self._set(change.path, change.after)
        blocked = [
            blocker
            for change in ordered
            if change.after is not None
            for blocker in self._in_the_way(change.path)
        ]
        if blocked:
            for change in reversed(ordered):
                self._set(change.path, change.before)
            raise self._conflict(blocked)

    def _set(self, path: bytes, entry: Entry | None) -> None:
        was, self.current[path] = self.current.get(path), entry
        self._unwritten[path] = entry
        step = (entry is not None) - (was is not None)
        if step:
            for directory in _directories(path):
                self._below[directory] += step

    def _in_the_way(self, path: bytes) -> Iterator[bytes]:
        yield from (one for one in _directories(path) if self.current.get(one) is not None)
        if self._below[path]:
            yield path
        obstacle = self._disk.obstacles.get(path)
        if obstacle is not None and self.current.get(obstacle, SPECIAL) is not None:
            yield obstacle
        signature = self._disk.signatures.get(path)
        directory = os.fsencode(self._checkout.top) + b"/" + path
        if signature is not None and os.path.isdir(directory):  # noqa: PTH112  (bytes)
            for name in files_below(directory):
                if self.current.get(path + b"/" + name, SPECIAL) is not None:
                    yield path + b"/" + name

    # Merging, by git, in the scratch index.

    def _merged(
        self, changes: Sequence[Change], differing: Sequence[Change], text: Callable[[], bytes]
    ) -> dict[bytes, Entry | None]:
        paths = [change.path for change in differing]
        if any(self.current[path] == SPECIAL for path in paths):
            raise self._conflict(paths)
        # The rest is shown to git as the patch knew it, whether or not it is changed already. Its
        # outcome is git's too: a file may have been renamed to it, and changed where it was.
        alike = {one.path: one.before for one in changes if one not in differing}
        self._write_index(alike)
        shutil.copyfile(self._index, self._kept)
        patch = text_of(text())
        merging = ("apply", "--cached", "--3way", "-")
        done = self._git.run(*merging, stdin=patch, statuses=(0, 1, 128))
        if done.returncode != 0:
            unmerged = self._git.names("ls-files", "-z", "--unmerged")
            os.replace(self._kept, self._index)  # noqa: PTH105
            self._unwritten |= {path: self.current[path] for path in alike}
            found = dict.fromkeys(line.partition(b"\t")[2] for line in unmerged)
            raise self._conflict([path for path in found if path in self.current] or paths)
        staged = staged_entries(self._git, {change.path for change in changes})
        return {change.path: staged.get(change.path) for change in changes}

    def _write_index(self, besides: dict[bytes, Entry | None]) -> None:
        """Bring the scratch index up to what is here, but for ``besides``."""
        if not self._is_begun:
            self._git.run("read-tree", self._base)
            self._is_begun = True
        entries = {**self._unwritten, **besides}
        self._unwritten.clear()
        self._git.run(
            "update-index", "-z", "--index-info", stdin=index_lines(entries, len(self._base))
        )


def index_lines(entries: dict[bytes, Entry | None], digits: int) -> bytes:
    """Return entries as ``update-index --index-info`` takes them, those that go first.

    ``digits`` is the length of the repository's object names.
    """
    gone = [
        b"0 %s\t%s\0" % (b"0" * digits, path) for path, entry in entries.items() if entry is None
    ]
    there = [
        b"%s %s\t%s\0" % (entry.mode.encode(), entry.blob.encode(), path)
        for path, entry in entries.items()
        if entry is not None and entry != SPECIAL
    ]
    return b"".join(gone + there)


def _directories(path: bytes) -> Iterator[bytes]:
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)
