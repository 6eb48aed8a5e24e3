from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hmz_mp.agents.engine import Engine
from hmz_mp.agents.placing import InCopy, InWorktree, absolute, placed
from hmz_mp.core.late import Late
from hmz_mp.shipping.sending import Shipping
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
    assert (cwd, tree) == (PLACE, InWorktree(trees.setup(), None))


def test_every_turn_gets_one_but_where_it_is_told(trees: Worktrees) -> None:
    trees.every_turn = True
    assert placed(None) == (PLACE, InWorktree(trees.setup(), None))
    assert placed("/x") == ("/x", None)


def test_a_session_gets_its_own(trees: Worktrees) -> None:
    names = [placed(worktree(), session)[1] for session in ("a", "b", "a")]
    assert [name and name.name for name in names] == ["s1", "s2", "s1"]


def test_what_is_shipped(trees: Worktrees) -> None:
    _, tree = placed(worktree())
    assert tree is not None
    engine = Engine(len, (1,), True, "len", {})
    assert tree.around(engine, (PLACE,), b"x") == (aturn, (*tree, len, (1, PLACE)))
    plain = engine._replace(args=(), waits=False)
    assert tree.around(plain, (), None) == (turn, (*tree, len, ()))


# Copies.


@pytest.fixture
def shipping(trees: Worktrees) -> Shipping:
    """What the run around the test sends with its turns."""
    trees.shipping = Shipping(trees.open(), "run")
    return trees.shipping


def test_every_turn_gets_a_copy_but_where_it_is_told(shipping: Shipping) -> None:
    assert placed(None) == placed(worktree()) == (PLACE, InCopy(shipping, None))
    assert placed("/x") == ("/x", None)
    names = [placed(None, session)[1] for session in ("a", "b", "a")]
    assert [name and name.name for name in names] == ["s1", "s2", "s1"]


def test_what_is_shipped_with_files(trees: Worktrees, shipping: Shipping) -> None:
    _, copy = placed(None)
    assert copy is not None
    top = trees.open().checkout.top
    engine = Engine(len, (top,), True, "len", {})
    call, (late, *rest) = copy.around(engine, (PLACE,), b"x")
    assert call is shipping.wrap(waits=True)
    assert isinstance(late, Late)
    assert b"text\n" in late.read()
    assert rest == [None, len, (top, PLACE)]
    coded = engine._replace(files=(f"{top}/x",), waits=False)
    call, (late, *rest) = copy.around(coded, (), None)
    assert call is shipping.wrap(waits=False)
    assert rest == [None, len, ("\0shipped/",)]
