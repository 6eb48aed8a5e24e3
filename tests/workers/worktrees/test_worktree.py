from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hmz_mp.worktrees.patches import Change, changes_of, text_of
from hmz_mp_worker.worktrees.worktree import Setup, Worktree, WorktreeFailed
from tests.helpers import wait_until
from tests.worktrees.support import Repository, run_git, setup_of, write


@pytest.fixture
def setup(repository: Repository, tmp_path: Path) -> Setup:
    return setup_of(repository, tmp_path / "home")


@pytest.fixture
def worktree(setup: Setup) -> Iterator[Worktree]:
    """One that was taken."""
    taken = Worktree.take(setup)
    yield taken
    taken.give_back()


def changes(worktree: Worktree) -> dict[bytes, Change]:
    return {change.path: change for change in changes_of(worktree.patch())}


def test_it_has_the_files_of_the_base_and_no_branch(
    worktree: Worktree, repository: Repository
) -> None:
    assert Path(worktree.directory, "a.txt").read_text() == "one\ntwo\nthree\n"
    assert worktree.cwd == worktree.directory
    assert run_git(Path(worktree.directory), "status", "--porcelain") == b""
    run_git(Path(worktree.directory), "symbolic-ref", "--quiet", "HEAD", status=1)
    assert worktree.patch() == b""


def test_it_is_locked_against_git_and_says_by_whom(
    worktree: Worktree, repository: Repository
) -> None:
    listed = repository.git("worktree", "list", "--porcelain")
    assert b"locked hmz-mp: the run\n" in listed
    repository.git("worktree", "prune", "--expire", "now")
    assert Path(worktree.directory, "a.txt").exists()


def test_a_turn_runs_where_the_run_was_started(setup: Setup, repository: Repository) -> None:
    repository.write("untracked-elsewhere/x")
    for inside in ("deep/er", "not/there"):
        worktree = Worktree.take(
            Setup(setup.home, setup.top, setup.git_dir, setup.base, inside=inside)
        )
        assert worktree.cwd == f"{worktree.directory}/{inside}"
        assert Path(worktree.cwd).is_dir()
        worktree.give_back()


ODD = [
    b"new\nline",
    b'qu"ote\\back',
    b"-dash",
    b"not\xffutf8\xfe",
    b"tab\there",
    "caf\u00e9".encode(),
    b" blanks ",
    b"*[glob]?",
    b":(top)magic",
]


def test_names_of_any_bytes(worktree: Worktree) -> None:
    top = os.fsencode(worktree.directory)
    for name in ODD:
        write(top + b"/odd/" + name, b"x\n")
    found = changes(worktree)
    assert set(found) == {b"odd/" + name for name in ODD}
    assert all(one.before is None and one.after is not None for one in found.values())


def test_every_kind_of_change(worktree: Worktree, repository: Repository) -> None:
    top = Path(worktree.directory)
    (top / "a.txt").write_text("one\nTWO\nthree\n")
    (top / "b.txt").chmod(0o755)
    (top / "deep/er/c.txt").unlink()
    (top / "binary").write_bytes(bytes(range(256)) * 10)
    (top / "link").symlink_to("a.txt")
    (top / "empty").write_text("")
    (top / "x.ignored").write_text("ignored\n")
    found = changes(worktree)
    modes = {
        path.decode(): (one.before and one.before.mode, one.after and one.after.mode)
        for path, one in found.items()
    }
    assert modes == {
        "a.txt": ("100644", "100644"),
        "b.txt": ("100644", "100755"),
        "deep/er/c.txt": ("100644", None),
        "binary": (None, "100644"),
        "link": (None, "120000"),
        "empty": (None, "100644"),
    }
    # git itself makes the same of the patch.
    patch = top.parent / "patch"
    patch.write_bytes(text_of(worktree.patch()))
    repository.git("apply", "--index", str(patch))
    assert repository.read("binary") == bytes(range(256)) * 10
    assert os.readlink(repository.place("link")) == b"a.txt"
    assert not repository.exists("deep/er/c.txt")


def test_a_rename_is_one_that_goes_and_one_that_comes(worktree: Worktree) -> None:
    top = Path(worktree.directory)
    (top / "a.txt").rename(top / "renamed\n.txt")
    patch = worktree.patch()
    assert b"rename from a.txt" in patch
    found = changes(worktree)
    assert found[b"a.txt"].after is None
    assert found[b"renamed\n.txt"].after == found[b"a.txt"].before


def test_what_was_committed_staged_or_put_on_a_branch_is_in_it_too(worktree: Worktree) -> None:
    top = Path(worktree.directory)
    (top / "a.txt").write_text("committed\n")
    author = ("-c", "user.name=x", "-c", "user.email=y")
    run_git(top, "checkout", "--quiet", "-b", "a-branch-of-the-agent")
    run_git(top, *author, "commit", "--quiet", "-am", "the agent's")
    (top / "b.txt").write_text("staged\n")
    run_git(top, "add", "b.txt")
    (top / "new").write_text("neither\n")
    assert set(changes(worktree)) == {b"a.txt", b"b.txt", b"new"}


def test_a_file_becomes_a_directory_and_the_other_way(worktree: Worktree) -> None:
    top = Path(worktree.directory)
    (top / "a.txt").unlink()
    write(f"{top}/a.txt/inner", "x\n")
    shutil.rmtree(top / "deep")
    (top / "deep").write_text("a file now\n")
    found = changes(worktree)
    assert found[b"a.txt"].after is None
    assert found[b"a.txt/inner"].before is None
    assert found[b"deep/er/c.txt"].after is None
    assert found[b"deep"].before is None


@pytest.mark.parametrize("committed", [False, True])
def test_a_repository_made_inside_is_taken_as_files(worktree: Worktree, committed: bool) -> None:
    inner = Repository(Path(worktree.directory, "inner"))
    inner.write("x", "x\n")
    inner.write("sub/y", "y\n")
    os.symlink("x", inner.place("sub/link"))
    if committed:
        inner.commit()
    assert set(changes(worktree)) == {b"inner/x", b"inner/sub/y", b"inner/sub/link"}


def test_settings_of_the_user_are_not_in_the_patch(
    worktree: Worktree, repository: Repository
) -> None:
    for name, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "color.ui": "always",
        "diff.external": "false",
        "core.quotePath": "false",
        "diff.context": "0",
        "core.abbrev": "5",
    }.items():
        repository.git("config", name, value)
    Path(worktree.directory, "a.txt").write_text("one\nTWO\nthree\n")
    patch = worktree.patch()
    assert b"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n" in patch
    assert len(changes(worktree)) == 1


def test_line_ends_are_the_repositorys(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "core.autocrlf", "true")
    repository.git("config", "core.safecrlf", "true")
    worktree = Worktree.take(setup_of(repository, tmp_path / "home"))
    try:
        file = Path(worktree.directory, "a.txt")
        assert file.read_bytes() == b"one\r\ntwo\r\nthree\r\n"
        file.write_bytes(b"one\r\nTWO\r\nthree\n")
        assert b"\r" not in worktree.patch()
    finally:
        worktree.give_back()


def test_hooks_are_not_run(repository: Repository, tmp_path: Path) -> None:
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        repository.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n", 0o755)
    for _ in range(2):
        worktree = Worktree.take(setup_of(repository, tmp_path / "home"))
        Path(worktree.directory, "a.txt").write_text("x\n")
        worktree.patch()
        worktree.give_back()
    assert not (tmp_path / "hook-ran").exists()


def test_submodules_are_empty_and_never_in_the_patch(
    repository: Repository, tmp_path: Path
) -> None:
    other = Repository(tmp_path / "other")
    other.write("theirs")
    other.commit()
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "--quiet", "add", str(other.top), "sub")
    repository.commit()
    worktree = Worktree.take(setup_of(repository, tmp_path / "home"))
    top = Path(worktree.directory)
    assert list((top / "sub").iterdir()) == []
    assert worktree.patch() == b""
    (top / "sub").rmdir()
    assert worktree.patch() == b""
    run_git(top, *allowed, "submodule", "--quiet", "update", "--init")
    (top / "sub" / "theirs").write_text("changed\n")
    (top / "a.txt").write_text("changed\n")
    assert set(changes(worktree)) == {b"a.txt"}
    worktree.give_back()
    again = Worktree.take(setup_of(repository, tmp_path / "home"))
    assert list(Path(again.directory, "sub").iterdir()) == []
    again.give_back()


def test_gigabytes_of_changes_are_refused(worktree: Worktree) -> None:
    with open(f"{worktree.directory}/huge", "wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(WorktreeFailed, match=r"taken: 3,072 MB of new .* the largest is 'huge'"):
        worktree.patch()


# Used again.


def _mess(top: Path) -> None:
    (top / "a.txt").write_text("changed\n")
    (top / "b.txt").unlink()
    (top / "new").write_text("new\n")
    (top / "x.ignored").write_text("ignored\n")
    (top / "dir").mkdir()
    Repository(top / "inner").commit()


def test_it_is_put_back_to_the_base_and_used_again(setup: Setup) -> None:
    first = Worktree.take(setup)
    top = Path(first.directory)
    _mess(top)
    run_git(top, "add", "a.txt", "new")
    first.give_back()
    second = Worktree.take(setup)
    assert second.directory == first.directory
    assert sorted(os.listdir(top)) == [".git", ".gitignore", "a.txt", "b.txt", "deep"]
    assert second.patch() == b""
    second.give_back()


def test_two_at_once_are_two(setup: Setup) -> None:
    first, second = Worktree.take(setup), Worktree.take(setup)
    assert first.directory != second.directory
    first.give_back()
    third = Worktree.take(setup)
    assert third.directory == first.directory
    second.give_back()
    third.give_back()


def test_many_threads_make_many(setup: Setup) -> None:
    taken: list[Worktree] = []
    barrier = threading.Barrier(6)

    def take() -> None:
        barrier.wait()
        taken.append(Worktree.take(setup))

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.directory for one in taken}) == 6
    for one in taken:
        assert one.patch() == b""
        one.give_back()


def _detach(top: Path) -> None:
    run_git(top, "checkout", "--quiet", "-b", "theirs")


def _unfinished_merge(top: Path) -> None:
    author = ("-c", "user.name=x", "-c", "user.email=y")
    run_git(top, "checkout", "--quiet", "-b", "side")
    (top / "a.txt").write_text("side\n")
    run_git(top, *author, "commit", "--quiet", "-am", "side")
    run_git(top, "checkout", "--quiet", "--detach", "HEAD~1")
    (top / "a.txt").write_text("other\n")
    run_git(top, *author, "commit", "--quiet", "-am", "other")
    run_git(top, *author, "merge", "side", status=1)


def _unfinished_bisect(top: Path) -> None:
    run_git(top, "bisect", "start")


def _stale_locks(top: Path) -> None:
    admin = (top / ".git").read_text().removeprefix("gitdir: ").strip()
    Path(admin, "index.lock").touch()
    Path(admin, "HEAD.lock").touch()
    (top / "a.txt").write_text("changed\n")


def _broken_index(top: Path) -> None:
    admin = (top / ".git").read_text().removeprefix("gitdir: ").strip()
    Path(admin, "index").write_bytes(b"nonsense")


def _no_link(top: Path) -> None:
    (top / ".git").unlink()
    (top / "a.txt").write_text("changed\n")


def _other_link(top: Path) -> None:
    (top / ".git").write_text("gitdir: /somewhere/else\n")


def _gone(top: Path) -> None:
    shutil.rmtree(top)


def _moved(top: Path) -> None:
    top.rename(top.parent / "moved")
    top.symlink_to(top.parent.parent / "project")


def _read_only(top: Path) -> None:
    (top / "locked").mkdir()
    (top / "locked" / "x").write_text("x\n")
    (top / "locked").chmod(0o500)


@pytest.mark.parametrize(
    "what",
    [
        _detach,
        _unfinished_merge,
        _unfinished_bisect,
        _stale_locks,
        _broken_index,
        _no_link,
        _other_link,
        _gone,
        _moved,
        _read_only,
    ],
)
def test_whatever_a_turn_did_the_next_finds_the_base(
    setup: Setup, repository: Repository, what: Callable[[Path], None]
) -> None:
    repository.write("precious", "not committed\n")
    repository.write("a.txt", "not committed either\n")
    first = Worktree.take(setup)
    what(Path(first.directory))
    first.give_back()
    second = Worktree.take(setup)
    assert Path(second.directory, "a.txt").read_text() == "one\ntwo\nthree\n"
    assert second.patch() == b""
    assert run_git(Path(second.directory), "status", "--porcelain") == b""
    second.give_back()
    assert repository.read("precious") == b"not committed\n"
    assert repository.read("a.txt") == b"not committed either\n"


def test_without_its_git_file_no_patch_is_told(worktree: Worktree) -> None:
    Path(worktree.directory, ".git").unlink()
    with pytest.raises(WorktreeFailed, match=r"\.git file is changed"):
        worktree.patch()


def test_a_lock_that_was_left_does_not_hide_changes(worktree: Worktree) -> None:
    _stale_locks(Path(worktree.directory))
    assert set(changes(worktree)) == {b"a.txt"}


DIES = """
import os, sys, signal, json
from hmz_mp_worker.worktrees.worktree import Setup, Worktree
worktree = Worktree.take(Setup(**json.loads(sys.argv[1])))
open(worktree.directory + "/half", "w").write("half")
print(worktree.directory, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_worker_had_is_not_used_again(setup: Setup) -> None:
    given = {name: getattr(setup, name) for name in ("home", "top", "git_dir", "base")}
    died = subprocess.run(
        [sys.executable, "-c", DIES, json.dumps(given)], capture_output=True, text=True, check=False
    )
    directory = died.stdout.strip()
    assert Path(setup.home).exists()
    worktree = Worktree.take(setup)
    assert worktree.directory != directory
    assert not os.path.lexists(directory)
    assert worktree.patch() == b""
    worktree.give_back()


def test_a_file_that_was_cut_off_is_no_obstacle(setup: Setup) -> None:
    Worktree.take(setup).give_back()
    Path(setup.home, "0.lock").write_text('{"generation": 0, "bu')
    worktree = Worktree.take(setup)
    assert worktree.patch() == b""
    worktree.give_back()


# Sessions.


def test_a_session_keeps_its_own(setup: Setup) -> None:
    first = Worktree.take(setup, "s1")
    _mess(Path(first.directory))
    before = first.patch()
    first.give_back()
    other = Worktree.take(setup)
    assert other.directory != first.directory
    other.give_back()
    again = Worktree.take(setup, "s1")
    assert again.directory == first.directory
    assert Path(again.directory, "x.ignored").exists()
    assert again.patch() == before
    again.give_back()


def test_a_session_waits_for_its_last_turn(setup: Setup) -> None:
    first = Worktree.take(setup, "s1")
    taken: list[Worktree] = []
    waiting = threading.Thread(target=lambda: taken.append(Worktree.take(setup, "s1")))
    waiting.start()
    probe = os.open(f"{setup.home}/s1.lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(probe)
    assert not taken
    first.give_back()
    wait_until(lambda: taken)
    waiting.join()
    taken[0].give_back()


def test_where_none_can_be_made_it_says_why(setup: Setup) -> None:
    bad = Setup(setup.home, setup.top, setup.git_dir, "0" * 40)
    with pytest.raises(WorktreeFailed, match="no worktree could be made: git worktree"):
        Worktree.take(bad)
    with pytest.raises(WorktreeFailed, match="no worktree could be made"):
        Worktree.take(bad)
    worktree = Worktree.take(setup)  # and nothing of that is in the way
    assert worktree.patch() == b""
    worktree.give_back()
