from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.agents.placing import absolute, in_worktree, placed
from hmz_mp.worktrees import worktree
from hmz_mp.worktrees.trees import Worktrees, worktrees_variable
from hmz_mp_worker.worktrees.turns import PLACE, aturn, turn
from tests.worktrees.support import Repository


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[Worktrees]:
    """The worktrees of the run around the test."""
    repository = Repository(tmp_path / "project")
    repository.write("x")
    repository.commit()
    trees = Worktrees(repository.top, "run")
    token = worktrees_variable.set(trees)
    yield trees
    worktrees_variable.reset(token)
    trees.close()


def test_directories_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute(None) is None
    assert absolute("sub") == absolute(Path("sub")) == str(tmp_path / "sub")
    assert absolute(worktree()) is worktree()


def test_outside_a_run_there_are_no_worktrees() -> None:
    assert placed(None) == (None, None)
    assert placed("/x", "session") == ("/x", None)
    with pytest.raises(RuntimeError, match=r"worktree\(\) is for flows"):
        placed(worktree())


def test_only_who_asks_gets_one(trees: Worktrees) -> None:
    assert placed(None) == (None, None)
    assert placed("/x") == ("/x", None)
    assert trees.opened is None
    cwd, tree = placed(worktree())
    assert (cwd, tree) == (PLACE, (trees.setup(), None))


def test_every_turn_gets_one_but_where_it_is_told(trees: Worktrees) -> None:
    trees.every_turn = True
    assert placed(None) == (PLACE, (trees.setup(), None))
    assert placed("/x") == ("/x", None)


def test_a_session_gets_its_own(trees: Worktrees) -> None:
    names = [placed(worktree(), session)[1] for session in ("a", "b", "a")]
    assert [name and name[1] for name in names] == ["s1", "s2", "s1"]


def test_what_is_shipped(trees: Worktrees) -> None:
    _, tree = placed(worktree())
    assert tree is not None
    assert in_worktree(tree, len, [1, PLACE], waits=True) == (aturn, (*tree, len, (1, PLACE)))
    assert in_worktree(tree, len, (), waits=False) == (turn, (*tree, len, ()))
