from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.trees import Worktrees, current_worktrees
from tests.worktrees.support import Repository


def test_nothing_is_made_before_it_is_wanted(repository: Repository) -> None:
    trees = Worktrees(repository.top, "run-1")
    assert repr(trees) == "<Worktrees of run-1 not begun>"
    assert trees.close() == []
    assert not repository.exists(".hmz-mp")


def test_the_commit_is_told_before_there_is_any_worktree(repository: Repository) -> None:
    told: list[tuple[Checkout, str, int]] = []
    trees = Worktrees(
        repository.top / "deep",
        "run-1",
        on_open=lambda checkout, base: told.append((checkout, base, len(repository.worktrees()))),
    )
    setup = trees.setup()
    assert trees.setup() == setup
    assert (setup.inside, setup.base, setup.label) == ("deep", repository.head, "run-1")
    ((checkout, base, count),) = told
    assert (checkout.inside, base, count) == ("deep", repository.head, 0)
    assert Path(setup.home).is_dir()
    assert trees.close() == []
    assert trees.close() == []
    assert not Path(setup.home).exists()


def test_many_threads_open_one(repository: Repository) -> None:
    trees = Worktrees(repository.top, "run-1")
    homes: list[str] = []
    threads = [threading.Thread(target=lambda: homes.append(trees.setup().home)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(homes)) == 1
    trees.close()


def test_where_the_commit_cannot_be_told_nothing_is_left(repository: Repository) -> None:
    def refuses(checkout: Checkout, base: str) -> None:
        raise BadInput("the run is not being recorded")

    trees = Worktrees(repository.top, "run-1", on_open=refuses)
    with pytest.raises(BadInput, match="not being recorded"):
        trees.open()
    assert not repository.exists(".hmz-mp/worktrees")
    assert trees.close() == []


def test_what_git_cannot_read_is_bad_input(repository: Repository) -> None:
    repository.git("config", "filter.broken.clean", "false")
    repository.git("config", "filter.broken.required", "true")
    repository.write(".gitattributes", "*.broken filter=broken\n")
    repository.write("x.broken")
    trees = Worktrees(repository.top, "run-1")
    with pytest.raises(BadInput, match=r"what is not committed in '.*' could not be read: git"):
        trees.open()
    assert not repository.exists(".hmz-mp/worktrees")


def test_gigabytes_that_are_not_committed_are_refused(repository: Repository) -> None:
    with open(repository.place("data"), "wb") as file:
        file.truncate(3 << 30)
    trees = Worktrees(repository.top, "run-1")
    with pytest.raises(BadInput, match=r"there are 3,072 MB of new .* the largest is 'data'"):
        trees.open()
    assert not repository.exists(".hmz-mp/worktrees")


def test_sessions_have_names() -> None:
    trees = Worktrees(Path(), "run-1")
    assert [trees.name_for(key) for key in ("a", "b", "a")] == ["s1", "s2", "s1"]


def test_outside_a_run_there_are_none() -> None:
    assert current_worktrees() is None
