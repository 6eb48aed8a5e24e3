"""A turn in a git worktree: one is taken, the turn runs in it, what it changed is its patch.

Imported by the coordinator for what it ships; it decides nothing of which turns run, and applies
no patch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hmz_mp_worker.placing import PLACE, Edited, in_thread, placed
from hmz_mp_worker.worktrees.worktree import Setup, Worktree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PLACE", "Edited", "aturn", "turn"]


def turn(
    setup: Setup, session: str | None, call: Callable[..., Any], arguments: Sequence[Any]
) -> Edited:
    """Run a turn that takes a process of its own: ``call(*arguments)`` in a worktree.

    An argument that is `PLACE`, or that has it as its ``cwd``, gets the worktree's directory.
    """
    worktree = Worktree.take(setup, session)
    try:
        answer = call(*placed(arguments, worktree.cwd))
        return Edited(answer, worktree.patch())
    finally:
        worktree.give_back()


async def aturn(
    setup: Setup, session: str | None, call: Callable[..., Any], arguments: Sequence[Any]
) -> Edited:
    """Run a turn that waits, in the same way; git runs beside the loop."""
    worktree = await in_thread(Worktree.take, setup, session, undo=Worktree.give_back)
    try:
        answer = await call(*placed(arguments, worktree.cwd))
        return Edited(answer, await in_thread(worktree.patch))
    finally:
        worktree.give_back()
