"""Giving a turn its directory: what stands for one among its arguments becomes it.

Imported by turns in worktrees and in copies.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PLACE", "Edited", "in_thread", "placed"]

T = TypeVar("T")

PLACE = "\0worktree"  # stands for a turn's own directory; no directory can be called so


class Edited(NamedTuple):
    """The answer of a turn, and its patch: empty if it changed nothing."""

    answer: Any
    patch: bytes


def placed(arguments: Sequence[Any], cwd: str) -> list[Any]:
    """Return arguments with the directory ``cwd`` where `PLACE` was.

    An argument that is `PLACE`, or that has it as its ``cwd``, gets it.
    """
    return [_with_place(argument, cwd) for argument in arguments]


def _with_place(argument: Any, cwd: str) -> Any:
    if isinstance(argument, msgspec.Struct) and getattr(argument, "cwd", None) == PLACE:
        return msgspec.structs.replace(argument, cwd=cwd)
    return cwd if isinstance(argument, str) and argument == PLACE else argument


async def in_thread(
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
