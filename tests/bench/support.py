"""Results to write about, without measuring anything."""

from __future__ import annotations

from hmz_mp_bench.results import Results
from hmz_mp_bench.workloads import WORKLOADS

ODD = "a \x1b[31mreason <b>&\"'| with `marks`\nand a second line"


def some_results(*, partial: bool = False) -> Results:
    """Three contenders measured, one that failed, one left out."""
    names = ("gathered", "memory")
    results = Results({name: WORKLOADS[name] for name in names}, partial=partial)
    results.about = {
        "when": "2026-01-01T00:00:00Z", "python": "3.11.7", "implementation": "CPython",
        "system": "Linux 6", "processor": "A <fast> one", "cpus": 2, "memory": 1 << 33, "load": 0.0,
        "versions": {"hmz-mp": "0.1.0", "ray": None},
    }  # fmt: skip
    for contender, seconds in (("hmz-mp", 1e-5), ("process-pool", 3e-4), ("loky", 2.5e-4)):
        for factor in (1.0, 1.2, 0.9):
            figures = {"call": seconds * factor, "all": 1.0, "calls": 20_000.0}
            results.cell("gathered", contender).samples.append(figures)
    results.cell("gathered", "mpire").problem = f"wrong answer: {ODD}"
    results.cell("gathered", "ray").left_out = "ray is not installed"
    figures = {"worker": 2.9e6, "private": 1e6, "others": 5e6}
    results.cell("memory", "hmz-mp").samples.append(figures)
    results.cell("memory", "bare-pipe").samples.append({**figures, "worker": 0.0})
    return results
