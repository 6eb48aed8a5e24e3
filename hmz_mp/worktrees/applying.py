"""Applying the patches of a run to the checkout: in item order, each whole or not at all.

Before a patch is written, what it will make of every file is noted in a journal; after a process
was killed in the middle, the same is done again and ends in the same files. Imported by who ends
a run, and by ``hmz-mp apply``; the journal is theirs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from hmz_mp.worktrees.composing import Composer, Conflict, index_lines
from hmz_mp.worktrees.disk import Disk
from hmz_mp.worktrees.patches import changes_of, is_safe
from hmz_mp.worktrees.writing import FileMoved, Writer
from hmz_mp_worker.git import GitFailed
from hmz_mp_worker.worktrees.removal import alone, remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hmz_mp.worktrees.checkout import Checkout
    from hmz_mp.worktrees.patches import Change

__all__ = ["Application", "Journal", "NotApplied", "RecordedPatch", "apply_patches"]

_BATCH = 256  # patches whose files are made ready at a time


@dataclass(frozen=True, slots=True)
class RecordedPatch:
    """A patch in the journal.

    ``state`` is ``None`` for one that was never begun. ``plan`` is what it was going to change
    when its writing began.
    """

    number: int
    item_id: str
    state: Literal["applying", "applied", "conflict"] | None
    plan: Sequence[Change] | None = None


class Journal(Protocol):
    """Where the patches of a run are kept, and what became of each is written down at once."""

    def patches(self) -> Iterator[RecordedPatch]:
        """Yield the patches in item order."""

    def text(self, number: int) -> bytes:
        """Return a patch."""

    def applying(self, number: int, plan: Sequence[Change]) -> None:
        """Note what a patch is going to change, before it does."""

    def applied(self, number: int) -> None:
        """Note that it has."""

    def withdrawn(self, number: int) -> None:
        """Note that it has not, and that every file is as before."""

    def conflicted(self, number: int, problem: str) -> str:
        """Note that it does not fit, leave it on disk, and return where."""


@dataclass(frozen=True, slots=True)
class NotApplied:
    """A patch that was not applied, why, and where it is, beside the ledger, if it was tried."""

    number: int
    item_id: str
    problem: str
    file: str | None = None


@dataclass(slots=True)
class Application:
    """What became of the patches: how many were applied, and which were not.

    ``already`` counts those that were in the checkout before.
    ``problem`` says why the rest was not even tried; ``interrupted`` that it was Ctrl-C.
    """

    applied: int = 0
    already: int = 0
    interrupted: bool = False
    refused: list[NotApplied] = field(default_factory=list)
    problem: str | None = None

    @property
    def complete(self) -> bool:
        """Whether all of them are."""
        return not self.refused and self.problem is None


def apply_patches(checkout: Checkout, base: str, scratch: Path, journal: Journal) -> Application:
    """Apply what is not applied yet. ``scratch`` is a directory of the caller's, on the same disk.

    What is interrupted, or fails with the disk, can be called again. Applications to one checkout
    wait for each other.
    """
    applier = _Applier(checkout, base, scratch, journal)
    with alone(checkout.git_dir):
        try:
            applier.run()
        except (GitFailed, OSError) as error:
            applier.result.problem = str(error)
        except KeyboardInterrupt:
            applier.result.problem = "interrupted"
            applier.result.interrupted = True
    return applier.finish()


@dataclass(slots=True)
class _Work:
    """A patch that is to be applied, and what it changes as far as it knows."""

    patch: RecordedPatch
    changes: Sequence[Change]
    result: list[Change] = field(default_factory=list)


class _Applier:
    """One application. Its whole state: what is left to do, and what became of the rest."""

    def __init__(self, checkout: Checkout, base: str, scratch: Path, journal: Journal) -> None:
        self.result = Application()
        self._checkout = checkout
        self._base = base
        self._scratch = scratch
        self._journal = journal
        self._left: list[_Work] = []
        self._done: list[_Work] = []

    def run(self) -> None:
        """Apply everything that can be."""
        self._base = self._checkout.commit_for(self._base)
        for patch in self._journal.patches():
            work = self._begun(patch)
            if work is not None:
                done = patch.state == "applied" or not work.changes
                (self._done if done else self._left).append(work)
        self.result.already = sum(work.patch.state == "applied" for work in self._done)
        while self._left:
            self._round()

    def _begun(self, patch: RecordedPatch) -> _Work | None:
        """Return what there is to do for a patch, or ``None`` for one that can be none of ours."""
        if patch.state == "applying" and patch.plan is not None:
            return _Work(patch, patch.plan)
        work = _Work(patch, [])
        try:
            work.changes = changes_of(self._journal.text(patch.number))
        except ValueError as error:
            self._conflicted(work, f"it cannot be read: {error}")
            return None
        unsafe = [change.path for change in work.changes if not is_safe(change.path)]
        if unsafe:
            self._conflicted(work, f"it would write to {os.fsdecode(unsafe[0])!r}")
            return None
        return work

    def finish(self) -> Application:
        problem = self.result.problem or ""
        self.result.refused += [
            NotApplied(work.patch.number, work.patch.item_id, problem) for work in self._left
        ]
        self.result.refused.sort(key=lambda refused: refused.number)
        return self.result

    def _round(self) -> None:
        """Look at the files and go on until all is done, or one turns out to have changed."""
        disk = self._look()
        composer = Composer(
            self._checkout, self._base, str(self._scratch), disk, self._missing_blobs()
        )
        for work in self._done:
            composer.credit(work.patch.item_id, work.changes)
        while self._left:
            batch = self._compose(composer)
            try:
                self._stage(batch)
                writer = self._writer(disk)
                while batch:
                    as_expected = self._write(writer, batch[0])
                    batch.pop(0)
                    if not as_expected:
                        return
            finally:
                self._left[:0] = batch

    def _look(self) -> Disk:
        paths = {change.path: None for work in self._left for change in work.changes}
        return Disk.read(self._checkout, self._base, str(self._scratch / "disk.index"), paths)

    def _missing_blobs(self) -> set[str]:
        blobs = {
            change.after.blob
            for work in self._left
            for change in work.changes
            if change.after is not None
        }
        asked = "".join(f"{blob}\n" for blob in blobs).encode("ascii")
        told = self._checkout.git().run("cat-file", "--batch-check", stdin=asked)
        lines = [line.split() for line in told.stdout.decode("ascii").splitlines()]
        return {words[0] for words in lines if words[-1] == "missing"}

    def _compose(self, composer: Composer) -> list[_Work]:
        """Put the next patches together, as many as touch no file twice."""
        batch: list[_Work] = []
        touched: set[bytes] = set()
        while self._left and len(batch) < _BATCH:
            work = self._left[0]
            paths = {change.path for change in work.changes}
            if batch and not touched.isdisjoint(paths):
                break
            self._left.pop(0)
            # What was begun is only to be finished; it was merged before.
            begun = work.patch.state == "applying"
            text = None if begun else partial(self._journal.text, work.patch.number)
            try:
                work.result = composer.add(work.patch.item_id, work.changes, text)
            except Conflict as conflict:
                self._conflicted(work, _problem(conflict, work))
                continue
            touched |= paths
            batch.append(work)
        return batch

    def _stage(self, batch: Sequence[_Work]) -> None:
        """Have git make the new files, with line ends and the like as the user's settings say."""
        entries = {one.path: one.after for work in batch for one in work.result}
        stage, index = self._scratch / "stage", self._scratch / "stage.index"
        for name in ("stage", "undo"):
            remove_tree(str(self._scratch / name))
            (self._scratch / name).mkdir()
        index.unlink(missing_ok=True)
        coming = {path: entry for path, entry in entries.items() if entry is not None}
        if coming:
            git = self._checkout.git(str(index))
            lines = index_lines(dict(coming), len(self._base))
            git.run("update-index", "-z", "--index-info", stdin=lines)
            git.run("checkout-index", "--all", "--quiet", f"--prefix={stage}/")

    def _writer(self, disk: Disk) -> Writer:
        places = str(self._scratch / "stage"), str(self._scratch / "undo")
        return Writer(self._checkout.top, *places, disk.signatures, self._checkout.inside)

    def _write(self, writer: Writer, work: _Work) -> bool:
        """Write one patch; returns whether the files were as they had been looked at."""
        number = work.patch.number
        self._journal.applying(number, work.result)
        try:
            writer.write(work.result)
        except FileMoved as moved:
            name = os.fsdecode(moved.path)
            self._conflicted(work, f"{name!r} was changed while patches were applied")
            return False
        except BaseException:
            self._journal.withdrawn(number)
            raise
        self._journal.applied(number)
        self.result.applied += 1
        self._done.append(work)
        return True

    def _conflicted(self, work: _Work, problem: str) -> None:
        file = self._journal.conflicted(work.patch.number, problem)
        refused = NotApplied(work.patch.number, work.patch.item_id, problem, file)
        self.result.refused.append(refused)


def _problem(conflict: Conflict, work: _Work) -> str:
    names = [repr(os.fsdecode(path)) for path in conflict.paths[:3]]
    where = ", ".join(names) + (" and more" if len(conflict.paths) > len(names) else "")
    others = [other for other in conflict.others if other != work.patch.item_id]
    if work.patch.state == "applying":
        return f"it is applied in part: {where} changed after its writing was cut short"
    if others:
        shown = ", ".join(map(repr, others[:3])) + (" and more" if len(others) > 3 else "")
        return f"{where}: conflicts with the patch of {shown}"
    return f"{where}: conflicts with what is in the checkout now"
