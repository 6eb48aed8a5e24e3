"""Many short calls of one function in one turn: what `map` ships when calls are short.

Each item's failure is its own: it is packed like a turn's, and the items after it still run.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from hmz_mp_worker.between import changes
from hmz_mp_worker.payload import PLAIN, dump_back, pack_failure
from hmz_mp_worker.proving import prove
from hmz_mp_worker.running import leave_fork
from hmz_mp_worker.state import process

__all__ = ["Pack", "Packed"]

# Either the plain values themselves, or for each item whether it was answered, and what with:
# its value's pickle or its packed failure.
Packed = tuple[list[Any], None] | tuple[None, list[tuple[bool, bytes]]]


class Pack:
    """Calls a function once for each tuple of arguments."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, items: list[tuple[Any, ...]]) -> Packed:
        """Return the answers, in order."""
        function = self.function
        values = []
        failures: dict[int, bytes] = {}
        for at, args in enumerate(items):
            try:
                values.append(function(*args))
            except BaseException as error:  # any exception is the item's ending, SystemExit too
                if process.forked:
                    leave_fork(error)
                failures[at] = pack_failure(error, skip=sys._getframe())
                values.append(None)
            if process.forked:
                leave_fork(None)
            if changes.any():
                changes.put_back()
        if not failures and PLAIN.issuperset(map(type, values)):
            return values, None
        return None, [
            (False, failures[at]) if at in failures else _pack_value(value)
            for at, value in enumerate(values)
        ]


def _pack_value(value: Any) -> tuple[bool, bytes]:
    """Pickle one value, all of it inside: a pack's answers share one frame."""
    try:
        payload = dump_back(value)
        prove(payload)
        data = payload.data if not payload.buffers else pickle.dumps(value, 5)
    except BaseException as error:  # dumping runs the user's code
        what = f"the result, of type {type(value).__module__}.{type(value).__qualname__},"
        return False, pack_failure(error, unpicklable=what)
    return True, data
