"""The same, whatever kind of repository it is: worktrees, patches, and nothing left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hmz_mp.worktrees.applying import apply_patches
from hmz_mp.worktrees.trees import Worktrees
from hmz_mp_worker.worktrees.worktree import Worktree
from tests.worktrees.support import Repository, run_git
from tests.worktrees.test_applying import FakeJournal

ALLOWED = ("-c", "protocol.file.allow=always")


def fill(repository: Repository) -> Repository:
    repository.write("a.txt", "one\ntwo\nthree\nfour\n")
    repository.write("deep/b.txt", "one\n")
    repository.commit()
    return repository


def plain(folder: Path) -> Path:
    return fill(Repository(folder / "project")).top


def sha256(folder: Path) -> Path:
    return fill(Repository(folder / "project", "--object-format=sha256")).top


def separate(folder: Path) -> Path:
    return fill(Repository(folder / "project", f"--separate-git-dir={folder / 'elsewhere'}")).top


def odd(folder: Path) -> Path:
    return fill(Repository(folder / os.fsdecode(b"odd \xff\n'\"$(x) [dir]"))).top


def linked(folder: Path) -> Path:
    main = fill(Repository(folder / "project"))
    main.git("worktree", "add", "--quiet", "-b", "side", str(folder / "linked"))
    return folder / "linked"


def submodule(folder: Path) -> Path:
    inner = fill(Repository(folder / "inner"))
    outer = Repository(folder / "outer")
    outer.git(*ALLOWED, "submodule", "--quiet", "add", str(inner.top), "sub")
    outer.commit()
    return outer.top / "sub"


def with_submodule(folder: Path) -> Path:
    inner = fill(Repository(folder / "inner"))
    outer = fill(Repository(folder / "outer"))
    outer.git(*ALLOWED, "submodule", "--quiet", "add", str(inner.top), "sub")
    outer.commit()
    return outer.top


def shallow(folder: Path) -> Path:
    fill(Repository(folder / "project")).commit("another")
    run_git(folder, "clone", "--quiet", "--depth=1", f"file://{folder}/project", "shallow")
    return folder / "shallow"


def sparse(folder: Path) -> Path:
    repository = fill(Repository(folder / "project"))
    repository.write("left/out", "x\n")
    repository.commit()
    repository.git("sparse-checkout", "set", "deep")
    return repository.top


def in_a_git_directory_that_is_a_link(folder: Path) -> Path:
    repository = fill(Repository(folder / "project"))
    (repository.top / ".git").rename(folder / "elsewhere")
    (repository.top / ".git").symlink_to(folder / "elsewhere")
    return repository.top


def with_worktree_settings(folder: Path) -> Path:
    repository = fill(Repository(folder / "project"))
    repository.git("config", "extensions.worktreeConfig", "true")
    repository.git("config", "--worktree", "core.bare", "false")
    repository.git("config", "core.untrackedCache", "true")
    repository.git("config", "feature.manyFiles", "true")
    repository.git("config", "core.splitIndex", "true")
    repository.git("update-index", "--split-index", "--untracked-cache")
    return repository.top


SLOW = [shallow, sparse, submodule, with_submodule, with_worktree_settings, separate, linked]


@pytest.mark.parametrize(
    "make",
    [
        plain,
        sha256,
        odd,
        in_a_git_directory_that_is_a_link,
        *(pytest.param(make, marks=pytest.mark.slow) for make in SLOW),
    ],
)
def test_it_works_in(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    top = make(tmp_path)
    before = run_git(top, "worktree", "list").count(b"\n")
    Path(top, "deep", "b.txt").write_text("not committed\n")
    Path(top, "new").write_text("new\n")
    trees = Worktrees(top, "run-1")
    journal = FakeJournal()
    try:
        setup = trees.setup()
        for number, (old, new) in enumerate([("one", "1"), ("four", "4"), ("one", "eins")]):
            worktree = Worktree.take(setup)
            place = Path(worktree.directory)
            assert (place / "deep" / "b.txt").read_text() == "not committed\n"
            assert (place / "new").read_text() == "new\n"
            (place / "a.txt").write_text((place / "a.txt").read_text().replace(old, new))
            journal.add(f"item{number}", worktree.patch())
            worktree.give_back()
        assert trees.opened is not None
        scratch = trees.opened.home.path / "scratch"
        scratch.mkdir()
        done = apply_patches(trees.opened.checkout, trees.opened.base, scratch, journal)
    finally:
        assert trees.close() == []
    assert done.applied == 2, done
    assert [one.item_id for one in done.refused] == ["item2"]
    assert Path(top, "a.txt").read_text() == "1\ntwo\nthree\n4\n"
    status = set(run_git(top, "status", "--porcelain").splitlines())
    assert status == {b" M a.txt", b" M deep/b.txt", b"?? new"}
    assert run_git(top, "worktree", "list").count(b"\n") == before
