"""Each target, reached and missed, from results that nobody measured."""

from __future__ import annotations

import pytest

from hmz_mp_bench.results import Results
from hmz_mp_bench.targets import TARGETS, verdicts
from hmz_mp_bench.workloads import WORKLOADS

Figures = dict[tuple[str, str, str], float]
GOOD: Figures = {
    ("gathered", "hmz-mp", "call"): 1e-5, ("gathered", "process-pool", "call"): 2.6e-4,
    ("gathered", "dask", "call"): 1.6e-4,
    ("window", "hmz-mp", "call"): 1.2e-5, ("window", "hmz-mp", "growth"): 1e6,
    ("one-by-one", "hmz-mp", "call"): 3e-5, ("one-by-one", "process-pool", "call"): 1e-4,
    ("mebibyte", "hmz-mp", "call"): 1e-3, ("mebibyte", "process-pool", "call"): 13e-3,
    ("large", "hmz-mp", "call"): 1.0, ("large", "process-pool", "call"): 4.1,
    ("map", "hmz-mp", "call"): 0.9e-6, ("map", "hmz-mp", "growth"): -4096.0,
    ("start", "hmz-mp", "answers"): 0.2, ("start", "process-pool-forkserver", "answers"): 0.21,
    ("start", "loky", "answers"): 0.41,
    ("memory", "hmz-mp", "worker"): 2.9e6, ("killed", "hmz-mp", "next"): 9e-3,
    ("parse", "hmz-mp", "all"): 0.52, ("parse", "serial", "all"): 1.0,
    ("ticker", "hmz-mp", "p99"): 9e-3, ("mixed", "hmz-mp", "over"): 1.09,
    ("sessions", "hmz-mp", "all"): 0.04, ("sessions", "hmz-mp", "calls"): 1000,
    ("opened", "hmz-mp", "all"): 0.9, ("opened", "hmz-mp", "calls"): 1_000_000,
    ("opened", "hmz-mp", "each"): 199,
    ("exec", "hmz-mp-exec", "call"): 1e-4, ("exec", "bare-map", "call"): 5e-5,
}  # fmt: skip


def results_of(figures: Figures) -> Results:
    results = Results(WORKLOADS, about={"cpus": 2})
    for (workload, contender, figure), value in figures.items():
        samples = results.cell(workload, contender).samples
        if not samples:
            samples.append({})
        samples[0][figure] = value
    return results


def test_all_are_reached() -> None:
    found = verdicts(results_of(GOOD))
    assert len(found) == len(TARGETS)
    assert [
        target.text for target, verdict in found if verdict is None or not verdict.reached
    ] == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: f"{one.workload} {one.text}")
def test_each_is_missed_and_not_measured(target: tuple[str, str, object]) -> None:
    workload, text, _ = target
    worse = {
        (name, contender, figure): value
        * (100 if contender.startswith("hmz-mp") and figure != "calls" and name == workload else 1)
        + (1e9 if figure == "growth" else 0)
        for (name, contender, figure), value in GOOD.items()
    }
    missed = {
        one.text: verdict for one, verdict in verdicts(results_of(worse)) if one[0] == workload
    }
    verdict = missed[text]
    assert verdict is not None
    assert not verdict.reached
    nothing = results_of({(workload, "nobody", "call"): 1.0})
    assert {verdict for _, verdict in verdicts(nothing)} == {None}
