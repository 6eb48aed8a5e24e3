"""About how many bytes values hold, to bound how many of them wait in memory. Pure."""

from __future__ import annotations

from itertools import islice
from typing import Any

__all__ = ["Average", "weight_of"]

_LEAST = 64  # bytes of any object
_LOOKED_AT = 4  # values of a container
_DEEPEST = 3


def weight_of(value: Any, depth: int = _DEEPEST) -> int:
    """Return about how many bytes a value holds; a container's by its first few values."""
    if isinstance(value, (str, bytes, bytearray)):
        return _LEAST + len(value)
    if isinstance(value, (tuple, list, set, frozenset, dict)):
        count = len(value)
        if not count or not depth:
            return _LEAST + 8 * count
        some = list(islice(value.values() if isinstance(value, dict) else value, _LOOKED_AT))
        return _LEAST + count * (8 + sum(weight_of(one, depth - 1) for one in some) // len(some))
    try:
        size = value.nbytes  # arrays, tables and views
    except Exception:  # a user's class may do anything when asked
        return _LEAST
    return _LEAST + size if isinstance(size, int) and size > 0 else _LEAST


class Average:
    """A moving average, which follows a larger weight at once and a smaller one slowly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def note(self, weight: int) -> None:
        """Take in one weight."""
        self.value = weight if weight > self.value else self.value + 0.1 * (weight - self.value)
