"""Carrying out a plan: a fresh process for each step, the results filled in as they come.

Knows nothing of terminals; who calls is told of each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hmz_mp_bench.plan import Estimate, Step
from hmz_mp_bench.registry import Entry
from hmz_mp_bench.results import Results
from hmz_mp_bench.runner import Measured, run_fresh, run_start

__all__ = ["Position", "carry_out", "in_a_fresh_process"]

TIMEOUT = 60.0
_TIMES = 15  # how many times as long as expected a run may take


@dataclass(frozen=True, slots=True)
class Position:
    """Where the measuring is: which step is next, of how many, and the seconds left."""

    step: Step
    number: int  # from 1
    total: int
    left: float


Run = Callable[[Step], Measured]


def in_a_fresh_process(results: Results, contenders: Mapping[str, Entry]) -> Run:
    """Return what measures a step in a process of its own."""

    def run(step: Step) -> Measured:
        workload = results.workloads[step.workload]
        timeout = max(TIMEOUT, _TIMES * step.seconds)
        if workload.own_process:
            return run_start(step.contender, results.workers, timeout)
        count = workload.count(step.contender, results.size)
        contender = contenders[step.contender].contender
        return run_fresh(contender, workload.procedure, count, results.workers, timeout)

    return run


def carry_out(
    steps: Sequence[Step],
    results: Results,
    run: Run,
    watch: Callable[[Position], object] = lambda _: None,
) -> None:
    """Fill in the results. One that failed is not asked for the same again.

    Raises `KeyboardInterrupt` when interrupted; the results are then marked as partial.
    """
    estimate = Estimate()
    try:
        for at, step in enumerate(steps):
            cell = results.cell(step.workload, step.contender)
            if cell.problem is not None:
                continue
            watch(Position(step, at + 1, len(steps), estimate.left(steps[at:])))
            began = time.monotonic()
            measured = run(step)
            estimate.note(step, time.monotonic() - began)
            if measured.problem is not None:
                cell.problem = measured.problem
            elif step.counts:
                cell.samples.append(measured.figures)
    except KeyboardInterrupt:
        results.partial = True
        raise
