"""``@flow``: the mark that says which functions of a file are flows.

Owns the mark and nothing else: a marked function stays the function it was. Everything in
``hmz_mp.flows`` may import this module; it knows nothing of files, agents or runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

__all__ = ["Mark", "flow", "mark_of"]

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__hmz_mp_flow__"


@dataclass(frozen=True, slots=True)
class Mark:
    """What ``@flow`` was given: the flow's name, and whether it is handed a ``state``."""

    name: str
    resumable: bool


@overload
def flow(function: F, /) -> F: ...


@overload
def flow(*, name: str | None = None, resumable: bool = False) -> Callable[[F], F]: ...


def flow(
    function: F | None = None, /, *, name: str | None = None, resumable: bool = False
) -> F | Callable[[F], F]:
    """Mark a function as a flow: ``@flow``, ``@flow(name="plan")``, ``@flow(resumable=True)``.

    The function is ``def`` or ``async def run(agents, task[, config][, state])``; the annotation
    on ``agents`` (a fixed-length tuple or a NamedTuple) says how many agents it drives. ``name``
    is what picks it among several in one file, the function's own name if left out. A resumable
    flow takes a ``state`` dict.
    """

    def mark(function: F) -> F:
        if not inspect.isroutine(function):
            raise TypeError(f"@flow marks a function; {function!r} is not one")
        setattr(function, _ATTRIBUTE, Mark(name or function.__name__, resumable))
        return function

    return mark if function is None else mark(function)


def mark_of(value: object) -> Mark | None:
    """Return the mark of a flow's function, or ``None`` for anything else."""
    if not inspect.isroutine(value):
        return None
    mark = getattr(value, _ATTRIBUTE, None)
    return mark if isinstance(mark, Mark) else None
