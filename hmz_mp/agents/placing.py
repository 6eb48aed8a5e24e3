"""Where a turn runs: in a directory, in a git worktree or a copy, or where its worker is.

Imported by agents, sessions and what submits their turns.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp.core.late import Late
from hmz_mp.worktrees.marking import Worktree
from hmz_mp.worktrees.trees import current_worktrees
from hmz_mp_worker.placing import PLACE
from hmz_mp_worker.worktrees.turns import aturn, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from hmz_mp.agents.engine import Engine
    from hmz_mp.shipping.sending import Shipping
    from hmz_mp_worker.worktrees.worktree import Setup

__all__ = ["Directory", "InCopy", "InWorktree", "Place", "absolute", "placed"]

Directory = str | os.PathLike[str] | Worktree | None  # what users may say
Place = str | Worktree | None  # the same, absolute

Shipped = tuple["Callable[..., Any]", tuple[Any, ...]]  # a function, and its arguments


class InWorktree(NamedTuple):
    """A git worktree for a turn; with a ``name``, its session's own."""

    setup: Setup
    name: str | None

    def around(self, engine: Engine, request: tuple[Any, ...], _: bytes | None) -> Shipped:
        """Return what is shipped to have an agent's turn run in it."""
        arguments = self.setup, self.name, engine.call, (*engine.args, *request)
        return aturn if engine.waits else turn, arguments


class InCopy(NamedTuple):
    """A copy of a turn's files; with a ``name``, its session's own."""

    shipping: Shipping
    name: str | None

    def around(self, engine: Engine, request: tuple[Any, ...], file: bytes | None) -> Shipped:
        """Return what is shipped to have an agent's turn about ``file`` run in it."""
        own = self.shipping.as_sent(engine.args) if engine.files else engine.args
        parcel = Late(self.shipping.parcel(file))
        arguments = parcel, self.name, engine.call, (*own, *request)
        return self.shipping.wrap(waits=engine.waits), arguments


def absolute(cwd: Directory) -> Place:
    """Return an absolute directory, or what stands for a worktree, as it is."""
    return cwd if cwd is None or isinstance(cwd, Worktree) else str(Path(cwd).absolute())


def placed(cwd: Place, session: object = None) -> tuple[str | None, InWorktree | InCopy | None]:
    """Return the directory that a turn is given, and the place of its own that it is to have.

    ``session`` tells apart those that have places of their own. Raises `RuntimeError` for
    ``worktree()`` outside a run, and `BadInput` when there can be no worktrees.
    """
    trees = current_worktrees()
    if isinstance(cwd, Worktree):
        if trees is None:
            raise RuntimeError(
                "worktree() is for flows: there is no run here, at whose end what turns changed "
                "would be applied; start the flow with hmz-mp exec"
            )
    elif cwd is not None or trees is None or not (trees.every_turn or trees.shipping):
        return cwd, None
    if trees.shipping is not None:
        shipping = trees.shipping
        return PLACE, InCopy(shipping, None if session is None else shipping.name_for(session))
    return PLACE, InWorktree(trees.setup(), None if session is None else trees.name_for(session))
