"""Where a turn runs: in a directory, in a git worktree, or where its worker is.

Imported by agents, sessions and what submits their turns.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.worktrees.marking import Worktree
from hmz_mp.worktrees.trees import current_worktrees
from hmz_mp_worker.worktrees.turns import PLACE, aturn, turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hmz_mp_worker.worktrees.worktree import Setup

__all__ = ["Directory", "Place", "absolute", "in_worktree", "placed"]

Directory = str | os.PathLike[str] | Worktree | None  # what users may say
Place = str | Worktree | None  # the same, absolute


def absolute(cwd: Directory) -> Place:
    """Return an absolute directory, or what stands for a worktree, as it is."""
    return cwd if cwd is None or isinstance(cwd, Worktree) else str(Path(cwd).absolute())


def placed(
    cwd: Place, session: object = None
) -> tuple[str | None, tuple[Setup, str | None] | None]:
    """Return the directory that a turn is given, and the worktree that it is to have, if any.

    ``session`` tells apart those that have worktrees of their own. Raises `RuntimeError` for
    ``worktree()`` outside a run, and `BadInput` when there can be no worktrees.
    """
    trees = current_worktrees()
    if isinstance(cwd, Worktree):
        if trees is None:
            raise RuntimeError(
                "worktree() is for flows: there is no run here, at whose end what turns changed "
                "would be applied; start the flow with hmz-mp exec"
            )
    elif cwd is not None or trees is None or not trees.every_turn:
        return cwd, None
    return PLACE, (trees.setup(), None if session is None else trees.name_for(session))


def in_worktree(
    tree: tuple[Setup, str | None], call: Callable[..., Any], arguments: Sequence[Any], waits: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what is shipped to have ``call(*arguments)`` run in a worktree."""
    return aturn if waits else turn, (*tree, call, tuple(arguments))
