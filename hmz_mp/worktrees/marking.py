"""How a worktree is asked for, in the place of a directory. Imports nothing of ours."""

from __future__ import annotations

__all__ = ["Worktree", "worktree"]


class Worktree:
    """Stands for a git worktree wherever an agent's turn can be given a directory."""

    def __repr__(self) -> str:
        return "worktree()"


_WORKTREE = Worktree()


def worktree() -> Worktree:
    """Return what has turns run in git worktrees of the checkout that the run was started in.

    Given to `Agent.new`, the session has one worktree for all of its turns, until the run ends;
    given to a batch, each turn gets one that was put back to where the run began. What turns
    changed is applied to the checkout at the end of the run.
    """
    return _WORKTREE
