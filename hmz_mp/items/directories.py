"""What holds for a directory and so for all below it. Imported by ``hmz_mp.items`` only."""

from __future__ import annotations

from typing import TYPE_CHECKING, AnyStr, Generic

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Inherited"]


class Inherited(Generic[AnyStr]):
    """Answers for directories by relative name, from the top down, asking once for each.

    ``holds`` is asked of a directory only when it holds for none of those above. It does not
    recurse: a tree may be deeper than Python's stack.
    """

    def __init__(self, top: AnyStr, separator: AnyStr, holds: Callable[[AnyStr], bool]) -> None:
        self._separator: AnyStr = separator
        self._holds: Callable[[AnyStr], bool] = holds
        self._known: dict[AnyStr, bool] = {top: False}

    def above(self, name: AnyStr) -> bool:
        """Return whether it holds for a directory that ``name`` is in."""
        known = self._known
        directory = name.rpartition(self._separator)[0]
        unknown = []
        while directory not in known:
            unknown.append(directory)
            directory = directory.rpartition(self._separator)[0]
        answer = known[directory]
        for directory in reversed(unknown):
            answer = known[directory] = answer or self._holds(directory)
        return answer
