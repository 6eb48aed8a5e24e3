"""A turn in a git worktree: one is taken, the turn runs in it, what it changed is its patch.

Imported by the coordinator for what it ships; it decides nothing of which turns run, and applies
no patch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from hmz_mp_worker.worktrees.worktree import Setup, Worktree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PLACE", "Edited", "aturn", "turn"]

T = TypeVar("T")

PLACE = "\0worktree"  # stands for the directory of a worktree; no directory can be called so


class Edited(NamedTuple):
    """The answer of a turn, and its patch: empty if it changed nothing."""

    answer: Any
    patch: bytes


def turn(
    setup: Setup, session: str | None, call: Callable[..., Any], arguments: Sequence[Any]
) -> Edited:
    """Run a turn that takes a process of its own: ``call(*arguments)`` in a worktree.

    An argument that is `PLACE`, or that has it as its ``cwd``, gets the worktree's directory.
    """
    worktree = Worktree.take(setup, session)
    try:
        answer = call(*_placed(arguments, worktree.cwd))
        return Edited(answer, worktree.patch())
    finally:
        worktree.give_back()


async def aturn(
    setup: Setup, session: str | None, call: Callable[..., Any], arguments: Sequence[Any]
) -> Edited:
    """Run a turn that waits, in the same way; git runs beside the loop."""
    worktree = await _in_thread(Worktree.take, setup, session, undo=Worktree.give_back)
    try:
        answer = await call(*_placed(arguments, worktree.cwd))
        return Edited(answer, await _in_thread(worktree.patch))
    finally:
        worktree.give_back()


def _placed(arguments: Sequence[Any], cwd: str) -> list[Any]:
    return [_with_place(argument, cwd) for argument in arguments]


def _with_place(argument: Any, cwd: str) -> Any:
    if isinstance(argument, msgspec.Struct) and getattr(argument, "cwd", None) == PLACE:
        return msgspec.structs.replace(argument, cwd=cwd)
    return cwd if isinstance(argument, str) and argument == PLACE else argument


async def _in_thread(
    function: Callable[..., T], *args: Any, undo: Callable[[T], object] | None = None
) -> T:
    """Call a function in a thread. A cancellation waits for its end: git is not to be left."""
    working = asyncio.get_running_loop().run_in_executor(None, function, *args)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is None:
        return working.result()
    if working.exception() is None and undo is not None:
        undo(working.result())
    raise cancelled
