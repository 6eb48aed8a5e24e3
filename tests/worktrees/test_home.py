from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hmz_mp.worktrees import home as home_module
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.home import Cleared, Home, clear_left_behind
from hmz_mp_worker.worktrees.worktree import Setup, Worktree
from tests.worktrees.support import Repository, run_git

# Makes worktrees as a run does, says so, and waits for its standard input.
OWNER = """
import os, sys
from pathlib import Path
from hmz_mp.worktrees.trees import Worktrees
from hmz_mp_worker.worktrees.worktree import Worktree
trees = Worktrees(Path(sys.argv[1]), sys.argv[2])
setup = trees.setup()
held = [Worktree.take(setup), Worktree.take(setup)]
Path(held[0].directory, "a.txt").write_text("changed")
print("ready", flush=True)
sys.stdin.read()
"""


class Owner:
    """Another process that has worktrees."""

    def __init__(self, repository: Repository, name: str) -> None:
        command = [sys.executable, "-c", OWNER, str(repository.top), name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def nothing_is_left(repository: Repository) -> bool:
    return (
        repository.worktrees() == []
        and not repository.exists(".git/worktrees")
        and not repository.exists(".hmz-mp/worktrees")
    )


def test_what_a_killed_process_left_is_removed(repository: Repository) -> None:
    owner = Owner(repository, "run-1")
    assert list(clear_left_behind(repository.top)) == [Cleared("run-1", is_alive=True)]
    assert len(repository.worktrees()) == 2
    owner.kill()
    assert list(clear_left_behind(repository.top, pretend=True)) == [Cleared("run-1", 2)]
    assert len(repository.worktrees()) == 2
    assert list(clear_left_behind(repository.top)) == [Cleared("run-1", 2)]
    assert nothing_is_left(repository)
    assert list(clear_left_behind(repository.top)) == []


def test_one_goes_on_and_another_is_cleared(repository: Repository) -> None:
    dead, alive = Owner(repository, "run-1"), Owner(repository, "run-2")
    dead.kill()
    found = list(clear_left_behind(repository.top))
    assert found == [Cleared("run-1", 2), Cleared("run-2", is_alive=True)]
    assert len(repository.worktrees()) == 2
    alive.kill()
    assert list(clear_left_behind(repository.top)) == [Cleared("run-2", 2)]
    assert nothing_is_left(repository)


def test_worktrees_of_the_users_own_stay(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "theirs"))
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "away"))
    (tmp_path / "away").rename(tmp_path / "on another disk")
    Owner(repository, "run-1").kill()
    list(clear_left_behind(repository.top))
    assert len(repository.worktrees()) == 2
    assert (tmp_path / "theirs" / "a.txt").exists()


def damage_link(home: Path) -> None:
    (home / "0" / ".git").unlink()


def damage_directory(home: Path) -> None:
    shutil.rmtree(home / "0")


def damage_state(home: Path) -> None:
    for path in home.glob("*.lock"):
        path.write_text("{")


def damage_modes(home: Path) -> None:
    (home / "0" / "deep" / "er").chmod(0o500)
    (home / "0").chmod(0o500)


def damage_into_link(home: Path) -> None:
    (home / "0").rename(home / "elsewhere")
    (home / "0").symlink_to(home.parent.parent.parent)


@pytest.mark.parametrize(
    "damage", [damage_link, damage_directory, damage_state, damage_modes, damage_into_link]
)
def test_whatever_became_of_them_they_go(repository: Repository, damage: object) -> None:
    Owner(repository, "run-1").kill()
    assert callable(damage)
    damage(repository.top / ".hmz-mp" / "worktrees" / "run-1")
    (cleared,) = clear_left_behind(repository.top)
    assert cleared.problems == ()
    assert nothing_is_left(repository)
    assert repository.read("a.txt") == b"one\ntwo\nthree\n"


def test_one_whose_making_was_cut_short(repository: Repository) -> None:
    Owner(repository, "run-1").kill()
    for name, reason in (("7", "hmz-mp: run-1"), ("8", "hmz-mp: run-2"), ("9", "initializing")):
        repository.write(f".git/worktrees/{name}/locked", f"{reason}\n")
    list(clear_left_behind(repository.top))
    left = sorted(os.listdir(repository.top / ".git" / "worktrees"))
    assert left == ["8", "9"]


def test_a_name_without_anything(repository: Repository) -> None:
    directory = repository.top / ".hmz-mp" / "worktrees"
    directory.mkdir(parents=True)
    (directory / "run-1.lock").touch()
    (directory / "run-2").mkdir()
    assert list(clear_left_behind(repository.top)) == [Cleared("run-1"), Cleared("run-2")]
    assert nothing_is_left(repository)


def test_they_are_found_from_anywhere_in_the_repository(repository: Repository) -> None:
    Owner(repository, "run-1").kill()
    (found,) = clear_left_behind(repository.top / "deep", pretend=True)
    assert (found.name, found.worktrees, found.start) == ("run-1", 2, repository.top)
    assert list(clear_left_behind(repository.top / "deep")) == [Cleared("run-1", 2)]
    assert nothing_is_left(repository)


def test_somebody_has_removed_the_directory_of_runs(repository: Repository) -> None:
    Owner(repository, "run-1").kill()
    shutil.rmtree(repository.top / ".hmz-mp")
    assert len(repository.worktrees()) == 2
    assert list(clear_left_behind(repository.top, pretend=True)) == [Cleared("run-1", 2)]
    assert list(clear_left_behind(repository.top)) == [Cleared("run-1", 2)]
    assert nothing_is_left(repository)
    assert not repository.exists(".hmz-mp")


def test_outside_a_repository_there_is_nothing(tmp_path: Path) -> None:
    assert list(clear_left_behind(tmp_path)) == []


def test_workers_that_end_are_waited_for(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    Owner(repository, "run-1").kill()
    home = repository.top / ".hmz-mp" / "worktrees" / "run-1"
    worker = os.open(home / "1.lock", os.O_RDWR)
    fcntl.flock(worker, fcntl.LOCK_EX)
    with monkeypatch.context() as patched:
        patched.setattr(home_module, "_WORKERS_END", 0.05)
        assert list(clear_left_behind(repository.top)) == [Cleared("run-1", is_alive=True)]
    found: list[Cleared] = []
    waiting = threading.Thread(target=lambda: found.extend(clear_left_behind(repository.top)))
    waiting.start()
    os.close(worker)
    waiting.join()
    assert found == [Cleared("run-1", 2)]
    assert nothing_is_left(repository)


def test_what_cannot_be_removed_is_said(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = Checkout.find(repository.top)
    home = Home(repository.top, "run-1", checkout)

    def refuses(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr(home_module, "remove_tree", refuses)
        (problem,) = home.remove()
    assert "could not be removed: [Errno 13] Permission denied" in problem
    assert list(clear_left_behind(repository.top)) == [Cleared("run-1")]


def test_its_own_end(repository: Repository) -> None:
    checkout = Checkout.find(repository.top / "deep")
    home = Home(repository.top / "deep", "run-1", checkout)
    setup = Setup(str(home.path), checkout.top, checkout.git_dir, repository.head, label="run-1")
    Worktree.take(setup).give_back()
    assert home.path == repository.top / "deep" / ".hmz-mp" / "worktrees" / "run-1"
    assert home.remove() == []
    assert repository.worktrees() == []
    assert not (repository.top / "deep" / ".hmz-mp" / "worktrees").exists()


def test_through_a_link_to_the_checkout(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository.top)
    start = tmp_path / "link" / "deep"
    checkout = Checkout.find(start)
    assert checkout.inside == "deep"
    home = Home(start, "run-1", checkout)
    setup = Setup(str(home.path), checkout.top, checkout.git_dir, repository.head)
    Worktree.take(setup).give_back()
    assert home.remove() == []
    assert repository.worktrees() == []
    run_git(repository.top, "fsck", "--strict")
