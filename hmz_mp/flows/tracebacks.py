"""A failure of a flow, shown as the flow's.

Owns what is left out of such a traceback: the frames of this package, of the event loop and of
the import system, none of which a flow's author wrote. ``loading`` and the command line import
this module.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import os
import threading
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

import anyio

import hmz_mp

__all__ = ["flow_traceback"]

_BUILT_IN = str(Path(__file__).parent / "builtin")
_LEFT_OUT = (
    *(
        str(Path(str(module.__file__)).parent) + os.sep
        for module in (hmz_mp, anyio, asyncio, concurrent.futures, importlib)
    ),
    threading.__file__,
    "<frozen importlib",
)


def flow_traceback(error: BaseException) -> str:
    """Return the traceback of a flow's exception, with only the frames a flow's author knows."""
    shown = TracebackException.from_exception(error, capture_locals=False)
    _trim(shown, set())
    return "".join(shown.format())


def _trim(shown: TracebackException, seen: set[int]) -> None:
    if id(shown) in seen:
        return
    seen.add(id(shown))
    shown.stack = StackSummary.from_list([frame for frame in shown.stack if _is_theirs(frame)])
    linked = [shown.__cause__, shown.__context__, *(shown.exceptions or [])]
    for other in linked:
        if other is not None:
            _trim(other, seen)


def _is_theirs(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_BUILT_IN) or not frame.filename.startswith(_LEFT_OUT)
