"""Many short calls of one function in one turn: what `map` ships when calls are short.

Each item's failure is its own: it is packed like a turn's, and the items after it still run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from hmz_mp_worker.between import changes
from hmz_mp_worker.payload import PLAIN, Payload, dump_inside, pack_failure
from hmz_mp_worker.proving import prove
from hmz_mp_worker.running import leave_fork
from hmz_mp_worker.state import process

__all__ = ["Pack", "Packed"]

# Either the plain values themselves, or for each item whether it was answered, and what with:
# its value's pickle or its packed failure. The first items' only, if it was cut short.
Packed = tuple[list[Any], None] | tuple[None, list[tuple[bool, bytes]]]


class Pack:
    """Calls a function once for each item: a tuple of arguments, or if ``single`` the argument.

    If ``divisible``, a pack that turns out to take long ends after the item that runs then, and
    the rest is not answered.
    """

    __slots__ = ("divisible", "function", "single")

    def __init__(
        self, function: Callable[..., Any], *, single: bool = False, divisible: bool = False
    ) -> None:
        self.function = function
        self.single = single
        self.divisible = divisible

    def __call__(self, items: list[Any]) -> Packed:
        """Return the answers, in order."""
        failures: dict[int, bytes] = {}
        values = self._call_each(zip(items, strict=False) if self.single else items, failures)
        if not failures and PLAIN.issuperset(map(type, values)):
            return values, None
        return None, [
            (False, failures[at]) if at in failures else _pack_value(value)
            for at, value in enumerate(values)
        ]

    def _call_each(self, items: Iterable[tuple[Any, ...]], failures: dict[int, bytes]) -> list[Any]:
        function = self.function
        noted, path, entries = changes.expected()  # as `changes.any`, which costs more than a call
        ticket = process.turn.ticket if self.divisible and process.turn is not None else None
        values: list[Any] = []
        keep = values.append
        for args in items:
            try:
                keep(function(*args))
            except BaseException as error:  # any exception is the item's ending, SystemExit too
                if process.forked:
                    leave_fork(error)
                failures[len(values)] = pack_failure(error, skip=sys._getframe())
                keep(None)
            if noted or path != entries or sys.path is not path:
                changes.put_back()
                noted, path, entries = changes.expected()
            if process.forked or process.late == ticket:
                if process.forked:
                    leave_fork(None)
                break
        return values


def _pack_value(value: Any) -> tuple[bool, bytes]:
    """Pickle one value, all of it inside: a pack's answers share one frame."""
    try:
        data = dump_inside(value)
        prove(Payload(data))
    except BaseException as error:  # dumping runs the user's code
        what = f"the result, of type {type(value).__module__}.{type(value).__qualname__},"
        return False, pack_failure(error, unpicklable=what)
    return True, data
