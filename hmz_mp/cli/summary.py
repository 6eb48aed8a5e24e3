"""What is said at the end of a run, on standard error.

Owns its words. Imported by ``cli.settling``; it reads a finished tally and prints nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hmz_mp.runs.words import counted, duration, model_used, used
from hmz_mp.terminal import printable, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hmz_mp.runs.tally import Tally

__all__ = ["Ending", "summary"]

_REASON_WIDTH = 300


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, beside what its tally counted.

    ``width`` is how many turns were in flight at once at most; ``halted`` says why the run was
    cut short, if it was; ``excess`` by how much its budget was exceeded, if it was; ``warnings``
    are about items that could not be looked at; ``widths`` is how many turns at once were found
    to be borne, by whom; ``is_recorded`` that all of it is in the ledger.
    """

    run_id: str
    seconds: float
    width: int = 0
    halted: str | None = None
    excess: str | None = None
    skipped_binary: int = 0
    warnings: Sequence[str] = ()
    widths: Mapping[str, int] = field(default_factory=dict)
    is_recorded: bool = True


def summary(tally: Tally, ending: Ending, *, quiet: bool = False) -> list[str]:
    """Return the lines of the summary; ``quiet`` leaves only what went wrong."""
    lines = [] if quiet else _totals(tally, ending)
    lines += [f"warning: {printable(line)}" for line in ending.warnings]
    if tally.failures:
        lines += _failures(tally, ending)
    if tally.reviews:
        lines += _to_review(tally, ending)
    if tally.not_run:
        reason = f": {printable(ending.halted)}" if ending.halted else ""
        lines.append(
            f"{tally.not_run:,} of {tally.total:,} not run{reason}"
            f" (which ones: hmz-mp show {ending.run_id})"
        )
    if ending.excess:
        lines.append(ending.excess)
    return lines


def _totals(tally: Tally, ending: Ending) -> list[str]:
    lines = [
        f"{tally.total:,} turn{'' if tally.total == 1 else 's'} in {duration(ending.seconds)},"
        f" {ending.width:,} at once: {counted(tally.counts())}"
    ]
    lines += [
        f"{printable(name)}: at most {width:,} at once in the end"
        for name, width in ending.widths.items()
        if tally.total > width
    ]
    if ending.skipped_binary:
        plural = "" if ending.skipped_binary == 1 else "s"
        lines.append(f"{ending.skipped_binary:,} binary file{plural} skipped")
    if tally.slowest:
        lines.append("slowest:")
        lines += [f"  {duration(s.seconds):>7}  {printable(s.item_id)}" for s in tally.slowest]
    models = tally.costs.models
    if models:
        lines.append(f"models: {used(models)}")
        lines += [f"  {model_used(one)}" for one in models if len(models) > 1]
    written = "written down" if ending.is_recorded else "written down in part"
    lines.append(f"{written} as run {ending.run_id}: hmz-mp show {ending.run_id}")
    return lines


def _to_review(tally: Tally, ending: Ending) -> list[str]:
    lines = ["to be reviewed:"]
    for one in tally.reviews:
        lines.append(f"  {printable(one.item_id)}: {shorten(one.reason, _REASON_WIDTH)}")
    if tally.to_review > len(tally.reviews):
        rest = tally.to_review - len(tally.reviews)
        lines.append(f"  and {rest:,} more: hmz-mp show {ending.run_id}")
    return lines


def _failures(tally: Tally, ending: Ending) -> list[str]:
    total = tally.failed + tally.cancelled
    lines = ["failed:"]
    for failure in tally.failures:
        reason = shorten(failure.reason, _REASON_WIDTH)
        lines.append(f"  {printable(failure.item_id)}: {reason}")
    if total > len(tally.failures):
        rest = total - len(tally.failures)
        lines.append(f"  and {rest:,} more: hmz-mp show {ending.run_id}")
    return lines
