"""The workloads: what is measured of each, by whom, how often, and what is to be reached.

Imports no contender and measures nothing. Every figure is such that less is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

__all__ = ["WORKLOADS", "Size", "Workload"]

Size = Literal["full", "quick", "smoke"]
Unit = Literal["seconds", "bytes"]
_HERE = "hmz_mp_bench.procedures"

OURS = ("hmz-mp", "hmz-mp-trio", "hmz-mp-executor")
LIBRARY = ("process-pool", "multiprocessing-pool")
PEERS = ("loky", "joblib", "mpire", "pebble", "deadpool", "anyio", "trio-parallel")
CLUSTERS = ("ray", "dask")
FLOORS = ("threads", "bare-pipe", "serial")

SLOW_TO_REPLACE = ("deadpool", "anyio", "trio-parallel")

NOT_AWAITABLE = "its calls cannot be awaited one by one"
NO_MAP = "it has no map"
TOO_SLOW = "it would take minutes"


@dataclass(frozen=True, slots=True)
class Workload:
    """One row.

    ``figure`` of what the procedure returns is the one that is compared, and ``extra`` are
    further ones to be shown. ``counts`` are the calls of each size; ``fewer`` is the most that
    contenders make which are so slow that all would take minutes. ``cannot`` names those left
    out, with the reason.
    """

    title: str
    procedure: str
    figure: str
    counts: Mapping[Size, int]
    contenders: tuple[str, ...]
    runs: int = 3
    unit: Unit = "seconds"
    per_call: bool = False
    extra: tuple[str, ...] = ()
    fewer: Mapping[str, int] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    seconds: float = 2.0  # about what a run takes, until one was measured
    thrown_away: int = 0  # first runs that do not count, beside each one's own warm-up
    needs: str = ""  # a file that there has to be
    own_process: bool = False  # whole processes are measured: `hmz_mp_bench.starts`

    def count(self, contender: str, size: Size) -> int:
        """Return how many calls a contender makes."""
        return min(self.counts[size], self.fewer.get(contender, self.counts[size]))


def _counts(full: int, quick: int, smoke: int) -> Mapping[Size, int]:
    return MappingProxyType({"full": full, "quick": quick, "smoke": smoke})


def _no(names: tuple[str, ...], reason: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


WORKLOADS: dict[str, Workload] = {
    "gathered": Workload(
        "20,000 awaitable no-op calls, gathered",
        f"{_HERE}.throughput:gathered", "call", _counts(20_000, 5_000, 8_000),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS, "hmz", *FLOORS),
        per_call=True,
        cannot={"joblib": f"{NOT_AWAITABLE}; its batches are in map"},
        fewer=dict.fromkeys((*LIBRARY, *PEERS), 5_000)
        | {"deadpool": 2_000, "ray": 2_000, "dask": 500, "hmz": 2_000},
        note="the bare pipe has one call in flight in each child",
        seconds=1.1,
    ),
    "window": Workload(
        "1,000,000 awaitable no-op calls, 1,000 in flight",
        f"{_HERE}.throughput:windowed", "call", _counts(1_000_000, 20_000, 4_000),
        (*OURS, "process-pool", "multiprocessing-pool"),
        runs=1, per_call=True, extra=("growth",),
        fewer={"process-pool": 20_000, "multiprocessing-pool": 20_000},
        cannot=_no((*PEERS, *CLUSTERS), f"{TOO_SLOW}; see gathered") | {"joblib": NOT_AWAITABLE},
        seconds=11.0,
    ),
    "one-by-one": Workload(
        "no-op calls, one after the other",
        f"{_HERE}.throughput:one_by_one", "call", _counts(2_000, 500, 300),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS, "hmz", *FLOORS),
        per_call=True, fewer={"joblib": 200, "ray": 500, "dask": 200},
        seconds=0.9,
    ),
    "mebibyte": Workload(
        "1 MiB of random bytes there and back",
        f"{_HERE}.throughput:mebibyte", "call", _counts(300, 50, 10),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS, "bare-pipe"),
        per_call=True, fewer={"deadpool": 60, "loky": 100, "joblib": 60, "ray": 60, "dask": 20},
        seconds=1.0,
    ),
    "large": Workload(
        "256 MiB of random bytes there and back",
        f"{_HERE}.throughput:large", "call", _counts(3, 1, 1),
        (*OURS, *LIBRARY, "loky", "mpire", "pebble", "anyio", "trio-parallel", "bare-pipe"),
        runs=1, per_call=True,
        cannot={"joblib": "it maps arrays only; bytes go as loky's", "deadpool": TOO_SLOW}
        | _no(CLUSTERS, "their stores would have to be set up for it"),
        seconds=6.0,
    ),
    "map": Workload(
        "map over 1,000,000 ints, in order",
        f"{_HERE}.throughput:mapped", "call", _counts(1_000_000, 100_000, 20_000),
        (*OURS, *LIBRARY, "loky", "joblib", "mpire", "pebble", "serial"),
        runs=2, per_call=True, extra=("growth",),
        fewer={"mpire": 200_000, "pebble": 300_000},
        cannot=_no(("anyio", "trio-parallel"), NO_MAP)
        | _no(("deadpool", *CLUSTERS), f"its map has no chunks; {TOO_SLOW}"),
        note="peers are told to take chunks of 1,000, and so is ProcessExecutor",
        seconds=3.0,
    ),
    "start": Workload(
        "a whole process: import to first answers of both workers",
        "", "answers", _counts(1, 1, 1),
        (*OURS, "process-pool", "process-pool-forkserver", "multiprocessing-pool", *PEERS,
         *CLUSTERS),
        runs=9, thrown_away=1, extra=("whole",), own_process=True, seconds=0.35,
        note="whole is to the end of the process",
    ),
    "memory": Workload(
        "memory of an idle worker (PSS)",
        f"{_HERE}.processes:idle_memory", "worker", _counts(100, 100, 20),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS, "bare-pipe"),
        runs=1, unit="bytes", extra=("private", "others"), needs="/proc/self/smaps_rollup",
        note="others: all further processes of the executor together",
        seconds=1.2,
    ),
    "killed": Workload(
        "a worker killed in its call: time until both answer again",
        f"{_HERE}.processes:killed", "next", _counts(30, 8, 3),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS),
        runs=1, extra=("least", "most"),
        fewer={"ray": 3, "dask": 3, "loky": 10, "joblib": 10} | dict.fromkeys(SLOW_TO_REPLACE, 15),
        note="the median of so many kills; a broken executor is made anew, as its user has to",
        seconds=5.0,
    ),
    "parse": Workload(
        "ast.parse and walk over 400 standard-library files",
        f"{_HERE}.throughput:parsed", "all", _counts(400, 100, 40),
        (*OURS, *LIBRARY, *PEERS, *CLUSTERS, *FLOORS),
        runs=3,
        seconds=2.1,
    ),
    "ticker": Workload(
        "how late a 5 ms ticker is beside 100 heavy calls, 99th percentile",
        f"{_HERE}.beside:ticker", "p99", _counts(100, 20, 6),
        (*OURS, *LIBRARY, "loky", "pebble", "anyio", "trio-parallel", "hmz", "threads"),
        runs=2, extra=("middle", "most"),
        fewer=dict.fromkeys((*LIBRARY, *PEERS, "hmz", "threads"), 50),
        cannot=_no(("mpire", "deadpool", *CLUSTERS), "left out to save time")
        | {"joblib": "it blocks; there is no loop beside it"},
        seconds=3.0,
    ),
    "mixed": Workload(
        "200 agent turns that wait 0.5 s beside 2,000 heavy calls, to the bound",
        f"{_HERE}.beside:mixed", "over", _counts(2_000, 400, 200),
        ("hmz-mp", "hmz-mp-trio", "process-pool", "hmz", "threads"),
        runs=2, fewer={"process-pool": 200, "threads": 400}, extra=("all", "bound"),
        cannot=_no(("hmz-mp-executor", "multiprocessing-pool", *PEERS, *CLUSTERS),
                   "it has no agents; ProcessPoolExecutor stands for waiting in workers"),
        note="the bound is the larger of waiting / width and work / cores",
        seconds=7.0,
    ),
    "sessions": Workload(
        "10,000 sessions, one turn each",
        f"{_HERE}.agents:sessions", "all", _counts(10_000, 1_000, 200),
        ("hmz-mp", "hmz-mp-trio", "hmz"),
        seconds=1.5,
    ),
    "opened": Workload(
        "1,000,000 sessions opened",
        f"{_HERE}.agents:opened", "all", _counts(1_000_000, 100_000, 10_000),
        ("hmz-mp", "hmz"), extra=("each",), fewer={"hmz": 100_000},
    ),
    "exec": Workload(
        "hmz-mp exec over 20,000 small files, ledger on, beside the bare map of its tool",
        f"{_HERE}.agents:over_files", "call", _counts(20_000, 1_000, 200),
        ("hmz-mp-exec", "bare-map"),
        runs=2, per_call=True, seconds=5.0,
    ),
}  # fmt: skip
