"""Waiting in tests for what announces itself by no event: polled, inside a bound."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

BOUND = 20.0  # seconds


def until(condition: Callable[[], bool]) -> None:
    """Return once ``condition()`` is true. Raises `AssertionError` after `BOUND` seconds."""
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


async def auntil(condition: Callable[[], bool]) -> None:
    """Do the same on a loop."""
    with anyio.fail_after(BOUND):
        while not condition():  # noqa: ASYNC110  # what is waited for is no task's doing
            await anyio.sleep(0.01)


def is_written(path: Path) -> bool:
    """Tell whether a file is there and holds at least one whole line."""
    return path.exists() and path.read_text().endswith("\n")


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; one that waits to be reaped has."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"
