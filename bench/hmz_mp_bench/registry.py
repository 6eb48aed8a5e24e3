"""The contenders by name: where each is, what it needs, and whether it starts slowly.

Imports none of them. `workloads` says who takes which workload.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

__all__ = ["CONTENDERS", "OURS", "Entry", "missing", "version"]

OURS = "hmz-mp"
_HERE = "hmz_mp_bench.contenders"


@dataclass(frozen=True, slots=True)
class Entry:
    """One contender.

    ``contender`` is its class, as ``module:class``. ``distribution`` has to be installed for it;
    ``None`` comes with Python. ``once``: its start takes seconds, so that it runs once where others
    run again.
    """

    title: str
    contender: str
    distribution: str | None = None
    once: bool = False


CONTENDERS: dict[str, Entry] = {
    OURS: Entry("hmz_mp.Pool", f"{_HERE}.ours:OurPool", "hmz-mp"),
    "hmz-mp-trio": Entry("hmz_mp.Pool on trio", f"{_HERE}.ours:OurPoolOnTrio", "trio"),
    "hmz-mp-executor": Entry("hmz_mp ProcessExecutor", f"{_HERE}.ours:OurExecutor", "hmz-mp"),
    "process-pool": Entry("ProcessPoolExecutor", f"{_HERE}.standard:ProcessPool"),
    "process-pool-forkserver": Entry(
        "ProcessPoolExecutor, forkserver", f"{_HERE}.standard:ProcessPool"
    ),
    "multiprocessing-pool": Entry("multiprocessing.Pool", f"{_HERE}.standard:MultiprocessingPool"),
    "loky": Entry("loky", f"{_HERE}.peers:Loky", "loky"),
    "joblib": Entry("joblib", f"{_HERE}.peers:Joblib", "joblib"),
    "mpire": Entry("mpire", f"{_HERE}.peers:Mpire", "mpire"),
    "pebble": Entry("pebble", f"{_HERE}.peers:Pebble", "Pebble"),
    "deadpool": Entry("deadpool", f"{_HERE}.peers:Deadpool", "deadpool-executor"),
    "anyio": Entry("anyio.to_process", f"{_HERE}.coroutines:AnyioProcesses", "anyio"),
    "trio-parallel": Entry("trio-parallel", f"{_HERE}.coroutines:TrioParallel", "trio-parallel"),
    "ray": Entry("ray", f"{_HERE}.clusters:Ray", "ray", once=True),
    "dask": Entry("dask.distributed", f"{_HERE}.clusters:Dask", "distributed", once=True),
    "hmz": Entry("hmz, on threads", f"{_HERE}.hmz:HmzThreads", "hmz"),
    "threads": Entry("ThreadPoolExecutor", f"{_HERE}.standard:Threads"),
    "bare-pipe": Entry("bare pipe", f"{_HERE}.pipe:BarePipe"),
    "hmz-mp-exec": Entry("hmz-mp exec", f"{_HERE}.commands:Exec", "hmz-mp"),
    "bare-map": Entry("Pool.map of its tool", f"{_HERE}.commands:BareMap", "hmz-mp"),
    "serial": Entry("serial loop", f"{_HERE}.standard:Serial"),
}


def missing(name: str) -> str | None:
    """Return why a contender cannot run here: what to install; ``None`` if it can."""
    distribution = CONTENDERS[name].distribution
    if distribution is None or version(distribution) is not None:
        return None
    return f"{distribution} is not installed"


def version(distribution: str) -> str | None:
    """Return the version of a distribution that is installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
