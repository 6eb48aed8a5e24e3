from __future__ import annotations

import threading
from pathlib import Path

from hmz_mp_worker.git import Git
from hmz_mp_worker.worktrees.removal import alone, remove, remove_tree
from tests.worktrees.support import Repository


def test_a_tree_goes_whatever_its_modes(tmp_path: Path) -> None:
    deep = tmp_path / "tree" / "locked" / "deep"
    deep.mkdir(parents=True)
    (deep / "x").touch()
    (deep / "link").symlink_to(tmp_path)
    deep.chmod(0o500)
    deep.parent.chmod(0o500)
    remove_tree(str(tmp_path / "tree"))
    assert list(tmp_path.iterdir()) == []
    remove_tree(str(tmp_path / "tree"))


def test_a_link_goes_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").touch()
    (tmp_path / "link").symlink_to("kept")
    remove_tree(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "x").exists()


def test_a_worktree_that_git_does_not_know(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "stray").mkdir()
    git = Git(str(repository.top), git_dir=str(repository.top / ".git"))
    remove(git, str(tmp_path / "stray"))
    remove(git, str(tmp_path / "stray"))
    assert not (tmp_path / "stray").exists()
    kept = tmp_path / "no worktrees" / "x"
    kept.mkdir(parents=True)
    remove(git, str(tmp_path / "stray"), str(kept))
    assert kept.exists()


def test_only_one_is_alone(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def enter(number: int) -> None:
        with alone(str(tmp_path)):
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8
