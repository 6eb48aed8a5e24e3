"""``hmz-mp apply`` killed again and again: in the end every patch is there, whole."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp_worker.worktrees.worktree import Worktree
from tests.cli.processes import Project
from tests.runs.support import new_ledger, turn
from tests.waiting import until
from tests.worktrees.support import Repository, setup_of

PATCHES = 300


def patch_of(patch: bytes, number: int) -> bytes:
    """Return what of a patch of many files is about those of one item."""
    raw, _, text = patch.partition(b"\n\n")
    mine = re.compile(rb"(old|new)%03d$" % number, re.MULTILINE)
    lines = [line for line in raw.split(b"\n") if mine.search(line)]
    parts = [part for part in re.split(rb"(?m)^(?=diff --git )", text) if mine.search(part)]
    return b"\n".join(lines) + b"\n\n" + b"".join(parts)


@pytest.fixture
def repository(project: Project, tmp_path: Path) -> Repository:
    """One with a run of many patches, of two files each, none of which is applied."""
    repository = Repository(project.root)
    for number in range(PATCHES):
        repository.write(f"old{number:03}", f"{number} before\n")
    repository.commit()
    setup = setup_of(repository, tmp_path / "worktrees")
    worktree = Worktree.take(setup)
    for number in range(PATCHES):
        for name in (f"old{number:03}", f"new{number:03}"):
            Path(worktree.directory, name).write_text(f"{number} after\n")
    patch = worktree.patch()
    worktree.give_back()
    shutil.rmtree(setup.home)
    for lock in repository.top.glob(".git/worktrees/*/locked"):
        lock.unlink()
    repository.git("worktree", "prune")
    with closing(new_ledger(runs_directory(repository.top))) as ledger:
        for number in range(PATCHES):
            record = turn(number, f"item{number}", state="ok", session=f"s{number}")
            record.patch = patch_of(patch, number)
            ledger.put(record)
        ledger.finish("interrupted", 130, {})
        with PatchJournal(ledger.directory) as journal:
            journal.note_checkout(Checkout.find(repository.top), repository.head)
    return repository


def halves(repository: Repository) -> list[int]:
    """Return the items of which one file is there and the other is not."""
    made = {int(path.name[3:]) for path in repository.top.glob("new*")}
    changed = {
        int(path.name[3:]) for path in repository.top.glob("old*") if "after" in path.read_text()
    }
    return sorted(made ^ changed)


def kill_once_written(project: Project, repository: Repository, goal: int) -> None:
    """Start it, and kill it once so many files are made."""
    process = project.start("apply", "last")

    def is_there() -> bool:
        return len(list(repository.top.glob("new*"))) >= goal or process.poll() is not None

    try:
        until(is_there)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_killed_again_and_again(project: Project, repository: Repository) -> None:
    for goal in range(20, PATCHES, 40):
        kill_once_written(project, repository, goal)
        assert len(halves(repository)) <= 1
        written = [path.read_text() for path in repository.top.glob("new*")]
        assert all(text.endswith(" after\n") for text in written)
    done = project.run("apply", "last")
    assert done.status == 0, done
    assert halves(repository) == []
    assert len(list(repository.top.glob("new*"))) == PATCHES
    assert len(repository.status()) == 2 * PATCHES
    assert repository.staged() == b""
    assert repository.worktrees() == []
    assert not repository.exists(".hmz-mp/worktrees")
