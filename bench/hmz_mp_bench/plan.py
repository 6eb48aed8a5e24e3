"""In which order what is measured, and how long that will take. Pure.

Contenders take turns, a run each, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hmz_mp_bench.registry import Entry
from hmz_mp_bench.workloads import Size, Workload

__all__ = ["Estimate", "Step", "plan"]

_SLOW_START = 7.0  # seconds that a cluster takes to start and end


@dataclass(frozen=True, slots=True)
class Step:
    """One run of one contender."""

    workload: str
    contender: str
    run: int  # from 0
    counts: bool  # whether it is not thrown away
    seconds: float  # a guess


def plan(
    workloads: Mapping[str, Workload],
    contenders: Mapping[str, Entry],
    wanted: Collection[str],
    size: Size,
    runs: int | None = None,
) -> list[Step]:
    """Return the runs in order; ``runs`` is how many count instead of each workload's own."""
    steps = []
    for name, workload in workloads.items():
        counted = runs or (workload.runs if size == "full" else 1)
        thrown_away = workload.thrown_away if size == "full" else 0
        for run in range(counted + thrown_away):
            for contender in workload.contenders:
                entry = contenders[contender]
                if contender not in wanted or contender in workload.cannot:
                    continue
                if entry.once and run > 0:
                    continue
                counts = run >= thrown_away or entry.once
                guess = workload.seconds * (workload.counts[size] / workload.counts["full"])
                guess = max(guess, 0.5) + _SLOW_START * entry.once
                steps.append(Step(name, contender, run, counts, guess))
    return steps


@dataclass(slots=True)
class Estimate:
    """How long the rest of the steps takes, from those that ended."""

    _took: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def note(self, step: Step, seconds: float) -> None:
        """Note how long a step took."""
        self._took.setdefault((step.workload, step.contender), []).append(seconds)

    def left(self, steps: Iterable[Step]) -> float:
        """Return about how many seconds ``steps`` will take."""
        return sum(self._one(step) for step in steps)

    def _one(self, step: Step) -> float:
        took = self._took.get((step.workload, step.contender))
        return statistics.median(took) if took else step.seconds
