"""Runs: how one is carried out, written down, and read again.

``ledger`` writes, ``reading`` reads; neither knows of commands or terminals. May import
everything below the command line.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["runs_directory"]


def runs_directory(start: Path) -> Path:
    """Return where the runs that were started in ``start`` are kept."""
    return start / ".hmz-mp" / "runs"
