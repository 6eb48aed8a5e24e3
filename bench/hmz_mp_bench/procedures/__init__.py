"""How each workload is measured. One module per family of workloads.

A procedure is given an open contender and how many calls to make, verifies every answer, and
returns its figures: seconds, or bytes. It raises `WrongAnswer` for what is not right.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Figures", "WrongAnswer", "resident", "verify"]

Figures = dict[str, float]


class WrongAnswer(Exception):
    """Raised when a contender answered something else than it was asked for."""


def verify(right: bool, what: str) -> None:
    """Raise `WrongAnswer` unless it is ``right``."""
    if not right:
        raise WrongAnswer(what)


def resident() -> int:
    """Return how many bytes of memory this process holds."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        import psutil

        return int(psutil.Process().memory_info().rss)
