"""``python -m bench [--runs N] [--json FILE] [WORKLOAD ...]``: measure, and print the ratios.

Each run of each contender is a process of its own, and the contenders take turns, so that a
machine that slows down slows all of them. Minimum and median are of the runs after the first.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.contenders import CONTENDERS, WORKERS
from bench.workloads import WORKLOADS
from hmz_mp.core.cpus import usable_cpus

_OURS = "hmz_mp"


def measure(workload: str, runs: int) -> dict[str, list[float]]:
    """Return the seconds of each contender's runs, the first thrown away."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for run in range(runs + 1):
        for name in CONTENDERS:
            ended = subprocess.run(
                [sys.executable, "-m", "bench.one", name, workload],
                stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent,
            )  # fmt: skip
            result = json.loads(ended.stdout)
            if not result["right"]:
                raise SystemExit(f"bench: {name} answered {workload} wrong")
            if run:
                seconds[name].append(result["seconds"])
    return seconds


def table(title: str, count: int, seconds: dict[str, list[float]]) -> str:
    """Return one workload's results for people: times, rates, and ratios to ours."""
    ours = statistics.median(seconds[_OURS])
    lines = [title, f"  {'':24}{'median':>10}{'min':>10}{'max':>10}{'items/s':>12}{'to ours':>9}"]
    for name, times in sorted(seconds.items(), key=lambda pair: statistics.median(pair[1])):
        median = statistics.median(times)
        lines.append(
            f"  {name:24}{median:>9.3f}s{min(times):>9.3f}s{max(times):>9.3f}s"
            f"{count / median:>12,.0f}{median / ours:>8.2f}x"
        )
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """Return what the figures were measured on and with."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": usable_cpus(),
        "workers": WORKERS,
        "versions": {name: importlib.metadata.version(name)
                     for name in ("hmz-mp", "msgspec", "cloudpickle", "anyio")},
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contender")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], metavar="WORKLOAD",
                        help=", ".join(WORKLOADS))  # fmt: skip
    options = parser.parse_args()
    about = machine()
    print(json.dumps(about))
    results = {}
    for name in options.workloads or WORKLOADS:
        seconds = measure(name, options.runs)
        results[name] = seconds
        print(f"\n{table(WORKLOADS[name].title, len(WORKLOADS[name].items()), seconds)}")
    if options.json:
        options.json.write_text(json.dumps({**about, "seconds": results}, indent=1))


if __name__ == "__main__":
    main()
