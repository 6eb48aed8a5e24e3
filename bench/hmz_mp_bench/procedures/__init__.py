"""How each workload is measured. One module per family of workloads.

A procedure is given an open contender and how many calls to make, verifies every answer, and
returns its figures: seconds, or bytes. It raises `WrongAnswer` for what is not right.
"""

from __future__ import annotations

__all__ = ["Figures", "WrongAnswer", "verify"]

Figures = dict[str, float]


class WrongAnswer(Exception):
    """Raised when a contender answered something else than it was asked for."""


def verify(right: bool, what: str) -> None:
    """Raise `WrongAnswer` unless it is ``right``."""
    if not right:
        raise WrongAnswer(what)
