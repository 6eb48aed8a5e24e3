from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.worktrees.checkout import Checkout
from tests.worktrees.support import Repository, run_git


def snapshot(repository: Repository, tmp_path: Path, start: str = ".") -> str:
    checkout = Checkout.find(repository.top / start)
    return checkout.snapshot(str(tmp_path / "index"))


def test_a_clean_checkout_begins_with_head(repository: Repository, tmp_path: Path) -> None:
    assert snapshot(repository, tmp_path) == repository.head


def test_where_it_is(repository: Repository) -> None:
    checkout = Checkout.find(repository.top / "deep" / "er")
    assert checkout == Checkout(str(repository.top), str(repository.top / ".git"), "deep/er")
    assert Checkout.find(repository.top).inside == ""


def test_a_directory_of_an_odd_name(tmp_path: Path) -> None:
    odd = Repository(tmp_path / os.fsdecode(b"odd \xff\n'dir\""))
    odd.write("x")
    odd.commit()
    (odd.top / "sub\n").mkdir()
    checkout = Checkout.find(odd.top / "sub\n")
    assert (checkout.top, checkout.inside) == (str(odd.top), "sub\n")
    odd.write("y")
    assert odd.tree_file(checkout.snapshot(str(tmp_path / "index")), "y") == b"text\n"


def test_what_is_not_committed_is_in_the_snapshot_and_nowhere_else(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write("a.txt", "changed\n")
    repository.write("b.txt", "staged\n")
    repository.git("add", "b.txt")
    repository.write("b.txt", "changed since\n")
    repository.write(b"new\xff\n", "new\n")
    repository.write("x.ignored", "ignored\n")
    repository.git("rm", "--quiet", "deep/er/c.txt")
    before = repository.status(), repository.refs(), repository.read(".git/index")
    base = snapshot(repository, tmp_path)
    assert (repository.status(), repository.refs(), repository.read(".git/index")) == before
    assert base != repository.head
    assert repository.git("rev-parse", f"{base}^").decode().strip() == repository.head
    assert repository.tree_file(base, "a.txt") == b"changed\n"
    assert repository.tree_file(base, "b.txt") == b"changed since\n"
    assert repository.tree_file(base, b"new\xff\n") == b"new\n"
    listed = repository.git("ls-tree", "-r", "-z", "--name-only", base).split(b"\0")
    assert b"x.ignored" not in listed
    assert b"deep/er/c.txt" not in listed


def test_it_needs_no_identity_of_the_user(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "--unset", "user.name")
    repository.git("config", "--unset", "user.email")
    repository.git("config", "user.useConfigOnly", "true")
    repository.write("a.txt", "changed\n")
    assert snapshot(repository, tmp_path) != repository.head


def test_a_file_in_the_place_of_a_directory(repository: Repository, tmp_path: Path) -> None:
    repository.git("rm", "--quiet", "--cached", "-r", "deep")
    os.unlink(repository.place("deep/er/c.txt"))
    os.rmdir(repository.place("deep/er"))
    os.rmdir(repository.place("deep"))
    repository.write("deep", "a file\n")
    os.unlink(repository.place("a.txt"))
    repository.write("a.txt/inner", "a directory\n")
    base = snapshot(repository, tmp_path)
    assert repository.tree_file(base, "deep") == b"a file\n"
    assert repository.tree_file(base, "a.txt/inner") == b"a directory\n"


def test_a_detached_head_and_a_linked_worktree(repository: Repository, tmp_path: Path) -> None:
    repository.git("checkout", "--quiet", "--detach")
    assert snapshot(repository, tmp_path) == repository.head
    repository.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "-b", "side")
    checkout = Checkout.find(tmp_path / "linked")
    assert checkout.top == str(tmp_path / "linked")
    (tmp_path / "linked" / "a.txt").write_text("of the linked one\n")
    base = checkout.snapshot(str(tmp_path / "index"))
    assert repository.tree_file(base, "a.txt") == b"of the linked one\n"


def test_a_repository_inside_is_left_out(repository: Repository, tmp_path: Path) -> None:
    inner = Repository(repository.top / "inner")
    inner.write("x")
    inner.commit()
    assert snapshot(repository, tmp_path) == repository.head


def test_submodules_are_what_the_index_says(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.write("theirs")
    other.commit()
    repository.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"), str(other.top), "sub"
    )
    repository.commit()
    run_git(repository.top / "sub", "config", "user.name", "x")
    run_git(repository.top / "sub", "config", "user.email", "x")
    run_git(repository.top / "sub", "commit", "--quiet", "--allow-empty", "-m", "more")
    repository.write("sub/theirs", "changed\n")
    assert Checkout.find(repository.top).submodules() == ["sub"]
    assert snapshot(repository, tmp_path) == repository.head


def test_a_sparse_checkout_has_deleted_nothing(repository: Repository, tmp_path: Path) -> None:
    repository.git("sparse-checkout", "set", "deep")
    repository.git("sparse-checkout", "reapply")
    repository.git("config", "core.sparseCheckoutCone", "true")
    assert snapshot(repository, tmp_path) == repository.head


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"])
def test_inside_a_hook_it_refuses(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/somewhere")
    with pytest.raises(BadInput, match=f"{name} is set"):
        Checkout.find(repository.top)


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"need a git checkout, and '.*' is in none: not a git"):
        Checkout.find(tmp_path)


def test_a_bare_repository(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    run_git(bare, "init", "--quiet", "--bare")
    with pytest.raises(BadInput, match="must be run in a work tree"):
        Checkout.find(bare)


def test_no_commits(tmp_path: Path) -> None:
    empty = Repository(tmp_path / "empty")
    empty.write("x")
    with pytest.raises(BadInput, match="has no commits yet"):
        Checkout.find(empty.top)


def test_an_unfinished_merge(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    repository.write("a.txt", "side\n")
    repository.commit()
    repository.git("checkout", "--quiet", "--detach", "HEAD~1")
    repository.write("a.txt", "other\n")
    repository.commit()
    repository.git("merge", "--quiet", "side", status=1)
    with pytest.raises(BadInput, match=r"conflicts of a merge in it \('a.txt'\)"):
        Checkout.find(repository.top)


def test_no_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match="need git"):
        Checkout.find(repository.top)


@pytest.mark.parametrize(
    ("said", "fits"), [("2.32.7", False), ("2.33.0", True), ("3.0.0", True), ("odd", True)]
)
def test_an_old_git(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, fits: bool
) -> None:
    real = shutil.which("git")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nfor word; do [ "$word" = --version ] && {\n'
        f'echo "git version {said}"; exit; }}\ndone\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    if fits:
        assert Checkout.find(repository.top).top == str(repository.top)
    else:
        with pytest.raises(BadInput, match=r"need git 2\.33 or later, and this is git 2\.32\.7"):
            Checkout.find(repository.top)


def test_what_no_worktree_will_have(repository: Repository) -> None:
    checkout = Checkout.find(repository.top / "deep")
    paths = [b"er/c.txt", b"er/none", b"../a.txt", b"../x"]
    assert checkout.left_out(repository.head, paths) == [b"er/none", b"../x"]
