"""What `fan_out` does about items that fail: ``on_failure``, which has no default.

Imported by ``fanin``.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from hmz_mp.core.limits import check_width

__all__ = ["OnFailure", "Retry", "checked"]


class Retry(msgspec.Struct, frozen=True):
    """Ask again about the items that failed, and about no others.

    ``times``: how often, for each item. ``backoff``: seconds before an item is asked about again,
    doubled each time; other items go on meanwhile. ``then`` is what becomes of those that failed
    all the same: ``"partial"``, they are in the report, or ``"fail"``, the first is raised.

    In a run an item has one row whatever it took, and its last try decides how it has ended.
    """

    times: int = 1
    backoff: float = 1.0
    then: Literal["partial", "fail"] = "partial"

    def __post_init__(self) -> None:
        check_width("times", self.times)
        if not 0 <= self.backoff < math.inf:
            raise ValueError(f"backoff is a number of seconds, not {self.backoff!r}")
        if self.then not in ("partial", "fail"):
            raise ValueError(f"then is 'partial' or 'fail', not {self.then!r}")

    def pause(self, tries: int) -> float:
        """Return the seconds to wait after so many tries."""
        return self.backoff * 2.0 ** (tries - 1)


OnFailure = Literal["fail", "partial"] | Retry


def checked(on_failure: OnFailure) -> Retry:
    """Return what to do as a `Retry`. Raises `ValueError` for another word."""
    if isinstance(on_failure, Retry):
        return on_failure
    if on_failure == "fail":
        return Retry(0, then="fail")
    if on_failure == "partial":
        return Retry(0)
    raise ValueError(f"on_failure is 'fail', 'partial' or a Retry(times), not {on_failure!r}")
