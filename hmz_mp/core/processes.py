"""Telling whether a process of before is still there. A pid alone does not say: they come again."""

from __future__ import annotations

import psutil

__all__ = ["is_alive", "own_start"]

# A process is told from a later one of the same pid by its start, which psutil derives from the
# clock; this much the clock may have been corrected meanwhile.
_CLOCK_SECONDS = 2.0


def own_start() -> float:
    """Return when this process began, by ``time.time()``."""
    return float(psutil.Process().create_time())


def is_alive(pid: int, started: float) -> bool:
    """Whether the process ``pid`` that began at ``started`` (``time.time()``) is still there."""
    try:
        process = psutil.Process(pid)
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and abs(process.create_time() - started) < _CLOCK_SECONDS
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
