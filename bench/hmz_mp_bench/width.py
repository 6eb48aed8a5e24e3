"""The best width for a user's own tool: which widths are tried, what came, and where the knee is.

Pure but for `measure_in_a_fresh_process`; knows nothing of terminals.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hmz_mp_bench import words
from hmz_mp_bench.runner import Measured, run_module
from hmz_mp_bench.tables import Table

__all__ = [
    "NEAR",
    "RULE",
    "Sweep",
    "Width",
    "grid",
    "knee",
    "measure_in_a_fresh_process",
    "width_table",
]

NEAR = 1.05  # times the best median that is as good as the best
RULE = "the fewest workers, then the fewest turns at once, whose median is within 5 % of the best"
FORMAT = 1  # of the JSON


class Width(NamedTuple):
    """So many worker processes, and so many turns in flight. The order is that of `RULE`."""

    workers: int
    at_once: int

    def __str__(self) -> str:
        return f"{self.workers} worker{'s' * (self.workers != 1)}, {self.at_once} at once"


def grid(
    cpus: int,
    files: int,
    *,
    waits: bool,
    workers: Sequence[int] | None = None,
    at_once: Sequence[int] | None = None,
) -> list[Width]:
    """Return the widths to try, the narrowest first.

    ``waits`` is for a tool that is ``async def``, many turns of which share a process. More turns
    at once than there are files would not be seen.
    """
    if workers is None:
        powers = [1 << at for at in range(cpus.bit_length())]
        workers = [1, cpus] if waits else sorted({*powers, cpus, 2 * cpus})
    found = set()
    for count in workers:
        turns = at_once or ([4**at for at in range(6)] if waits else [count, 2 * count, 4 * count])
        found |= {Width(count, max(1, min(one, files))) for one in turns}
    return sorted(found)


def knee(medians: Iterable[tuple[Width, float]]) -> Width:
    """Return the first width, in their order, that is as good as the best. Raises `ValueError`."""
    found = sorted(medians)
    if not found:
        raise ValueError("no width was measured")
    best = min(seconds for _, seconds in found)
    return next(width for width, seconds in found if seconds <= NEAR * best)


@dataclass(slots=True)
class Sweep:
    """What was measured: seconds for all files, by width; and which files failed, with why."""

    tool: str
    files: int
    seconds: dict[Width, list[float]] = field(default_factory=dict)
    failed: int = 0  # files, in the run that had most
    reason: str = ""  # of one of them
    problem: str | None = None  # a run that did not end well
    partial: bool = False  # it was interrupted

    def medians(self) -> list[tuple[Width, float]]:
        """Return the widths that were measured."""
        return [(width, statistics.median(took)) for width, took in self.seconds.items() if took]

    def knee(self) -> Width | None:
        """Return the width to use; ``None`` if none was measured."""
        medians = self.medians()
        return knee(medians) if medians else None

    def note(self, width: Width, measured: Measured) -> None:
        """Take what one run measured."""
        if measured.problem is not None:
            self.problem = f"{width}: {measured.problem}"
            return
        self.seconds.setdefault(width, []).append(measured.figures["all"])
        failed = int(measured.figures["failed"])
        if failed > self.failed:
            self.failed, self.reason = failed, measured.said

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        best = self.knee()
        return {
            "format": FORMAT,
            "tool": self.tool,
            "files": self.files,
            "failed": self.failed,
            "reason": self.reason,
            "problem": self.problem,
            "partial": self.partial,
            "rule": RULE,
            "knee": None if best is None else best._asdict(),
            "widths": [
                {**width._asdict(), "median": median, "seconds": self.seconds[width]}
                for width, median in sorted(self.medians())
            ],
        }


def width_table(sweep: Sweep) -> Table:
    """Return the sweep as a table, the narrowest first, the knee marked."""
    best = sweep.knee()
    rows = []
    for width, median in sorted(sweep.medians()):
        took = sweep.seconds[width]
        rows.append([
            str(width.workers), str(width.at_once), words.figure(median, "all", "seconds"),
            words.spread(took, "all", "seconds"), words.rate(median / sweep.files),
            "<- here" if width == best else "",
        ])  # fmt: skip
    heads = ["workers", "at once", "median", "min to max", "files a second", ""]
    return Table(f"{sweep.files:,} files with {sweep.tool}", heads, rows, [])


def measure_in_a_fresh_process(
    tool: str, files: Sequence[str], timeout: float
) -> Callable[[Width], Measured]:
    """Return what runs the tool once over all files, at a width, in a process of its own."""

    def measure(width: Width) -> Measured:
        with tempfile.TemporaryDirectory(prefix="hmz-mp-width-") as directory:
            asked = Path(directory, "asked")
            asked.write_text(json.dumps({"tool": tool, "files": list(files)}))
            arguments = [
                "hmz_mp_bench.width_one",
                str(asked),
                str(width.workers),
                str(width.at_once),
            ]
            return run_module(arguments, timeout)[0]

    return measure
