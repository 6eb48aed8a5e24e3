"""Fan-in: the same work for many items, and what was found of each, as one report.

``fan_out(items, work, on_failure=...)`` returns a `Report` of `Finding`s, in the order of the
items; none is lost and none is there twice.
"""

from __future__ import annotations

from hmz_mp.agents.counting import Used, counting
from hmz_mp.dispatch import Answered, batch_tool
from hmz_mp.errors import ItemFailed
from hmz_mp.fanin.fanning import fan_out
from hmz_mp.fanin.finding import BadFinding, Failure, Finding
from hmz_mp.fanin.report import Report
from hmz_mp.fanin.retrying import Retry
from hmz_mp.fanin.subtask import run_subtask
from hmz_mp.fanin.work import ask

__all__ = [
    "Answered",
    "BadFinding",
    "Failure",
    "Finding",
    "ItemFailed",
    "Report",
    "Retry",
    "Used",
    "ask",
    "batch_tool",
    "counting",
    "fan_out",
    "run_subtask",
]
