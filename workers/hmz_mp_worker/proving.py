"""Results are loaded here first, so that one whose loading ends a process ends this one.

Loading a pickle calls what it names, classes mostly. What was loaded here once without harm is
not tried again, so a result costs a search for names that are new. Used where answers are packed.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

from hmz_mp_worker.payload import Payload

__all__ = ["prove"]

_GLOBAL = b"\x93\x94"  # pickle's STACK_GLOBAL and MEMOIZE
# What pushes a string: it is written out, or was before and is named by its number.
_STRING = rb"(?:\x8c.[^\x94]{1,255}\x94|h.|j.{4})"
_NAMES = re.compile(_STRING + _STRING + rb"\Z", re.DOTALL)
_LONGEST = 520

_proved: set[bytes] = set()


def prove(payload: Payload) -> None:
    """Load a payload if it names what was never loaded here."""
    data = payload.data
    if _GLOBAL not in data:
        return
    fresh = [names for names in _named(data) if names not in _proved]
    if fresh:
        try:
            pickle.loads(data, buffers=payload.buffers)
        except BaseException:  # if it raises in the coordinator too, it is said there
            return
        _proved.update(fresh)


def _named(data: bytes) -> Iterator[bytes]:
    """Yield what stands for each module and name in a pickle."""
    at = data.find(_GLOBAL)
    while at >= 0:
        found = _NAMES.search(data[max(0, at - _LONGEST) : at])
        if found is not None:  # else these bytes are a value's
            yield found.group()
        at = data.find(_GLOBAL, at + 1)
