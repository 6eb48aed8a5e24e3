"""Run one contender on one workload in this process; print seconds and whether it was right."""

from __future__ import annotations

import json
import sys

from bench.contenders import CONTENDERS
from bench.workloads import WORKLOADS


def main(contender: str, workload_name: str) -> None:
    """Print one JSON object."""
    workload = WORKLOADS[workload_name]
    items = workload.items()
    timed = CONTENDERS[contender](workload.how, workload.function, items)
    right = timed.answers == [workload.expected(item) for item in items]
    print(json.dumps({"seconds": timed.seconds, "right": right}))


if __name__ == "__main__":
    main(*sys.argv[1:])
