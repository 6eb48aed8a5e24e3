from hmz_mp.worktrees import Worktree, worktree


def test_it_stands_for_a_directory() -> None:
    assert isinstance(worktree(), Worktree)
    assert repr(worktree()) == "worktree()"
