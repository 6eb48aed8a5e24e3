"""Fan-in: the same work for many items, and what was found of each, as one report.

``fan_out(items, work, on_failure=...)`` returns a `Report` of `Finding`s, in the order of the
items; none is lost and none is there twice.
"""

from __future__ import annotations

from hmz_mp.errors import ItemFailed
from hmz_mp.fanin.fanning import fan_out
from hmz_mp.fanin.finding import BadFinding, Failure, Finding
from hmz_mp.fanin.report import Report
from hmz_mp.fanin.retrying import Retry
from hmz_mp.fanin.work import ask

__all__ = [
    "BadFinding",
    "Failure",
    "Finding",
    "ItemFailed",
    "Report",
    "Retry",
    "ask",
    "fan_out",
]
