"""How many CPUs this process may really use: its affinity, and the quota of its cgroup."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = [
    "CpuBounds",
    "StrPath",
    "cpu_bounds",
    "folders_up",
    "read_text",
    "share_of",
    "usable_cpus",
    "worker_environment",
]

StrPath = str | os.PathLike[str]

SHARE = "HMZ_MP_CPUS"  # in a worker's environment: its share of the CPUs, for pools inside it
BOUNDED = "HMZ_MP_THREADS"  # there too: the names, of those below, that were not the user's
# What numerical libraries read to know how many threads to start; else as many as there are CPUs.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


class CpuBounds(NamedTuple):
    """What bounds the CPUs of this process: how many there are, and ``None`` where nothing does."""

    present: int
    affinity: int | None  # how many it may be scheduled on
    quota: float | None  # of its cgroups, in CPUs
    share: int | None  # of a pool's worker

    @property
    def usable(self) -> int:
        """How many may be used, at least 1."""
        cpus = self.present if self.affinity is None else self.affinity
        if self.quota is not None:
            cpus = min(cpus, max(1, int(self.quota + 0.5)))
        if self.share is not None:
            cpus = min(cpus, self.share)
        return max(1, cpus)


def usable_cpus(root: StrPath = "/sys/fs/cgroup", proc: StrPath = "/proc/self") -> int:
    """Return the number of CPUs that this process may use, at least 1.

    In a pool's worker that is its share of them: pools in pools do not multiply the width.

    ``root`` is where cgroups are mounted, ``proc`` this process's folder in ``/proc``.
    """
    return cpu_bounds(root, proc).usable


def cpu_bounds(root: StrPath = "/sys/fs/cgroup", proc: StrPath = "/proc/self") -> CpuBounds:
    """Return what bounds the CPUs of this process, from the same places."""
    affinity = None
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        affinity = len(os.sched_getaffinity(0))
    quotas = [quota for quota in _quotas(os.fspath(root), os.fspath(proc)) if quota > 0]
    share = os.environ.get(SHARE, "")
    return CpuBounds(
        present=os.cpu_count() or 1,
        affinity=affinity,
        quota=min(quotas) if quotas else None,
        share=int(share) if share.isdigit() else None,
    )


def share_of(workers: int) -> int:
    """Return how many CPUs each of so many workers may use for a pool of its own."""
    return max(1, usable_cpus() // workers)


def worker_environment(workers: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment of each of so many workers has beside this process's.

    That is what is ``given``, and each one's share of the CPUs, for pools and for the threads of
    libraries inside it. How many threads is left as it is where the user has said it.
    """
    share = str(share_of(workers))
    before, bounded = os.environ.get(SHARE), os.environ.get(BOUNDED, "").split()

    def is_open(name: str) -> bool:
        """Whether the user has not set it: nobody has, or the pool whose worker this is."""
        if name in given:
            return False
        value = os.environ.get(name)
        return value is None or (name in bounded and value == before)

    ours = [name for name in THREADS if is_open(name)]
    return {SHARE: share, **dict.fromkeys(ours, share), BOUNDED: " ".join(ours), **given}


def _quotas(root: str, proc: str) -> list[float]:
    """Return the quotas, in CPUs, of this process's cgroups and those above them."""
    found: list[float] = []
    for line in read_text(f"{proc}/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2
            found += _climb(root, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            found += _climb(f"{root}/cpu", path, _quota_v1)
    return found


def _climb(root: str, path: str, quota: Callable[[str], float]) -> list[float]:
    return [quota(folder) for folder in folders_up(root, path)]


def folders_up(root: str, path: str) -> list[str]:
    """Return the folder of ``path`` below ``root``, and those above it up to ``root``."""
    names = [name for name in path.split("/") if name]
    return ["/".join([root, *names[:count]]) for count in range(len(names), -1, -1)]


def _quota_v2(folder: str) -> float:
    words = read_text(f"{folder}/cpu.max").split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0] != "max" else 0.0


def _quota_v1(folder: str) -> float:
    quota, period = (
        read_text(f"{folder}/cpu.cfs_quota_us"),
        read_text(f"{folder}/cpu.cfs_period_us"),
    )
    return int(quota) / int(period) if quota and period and int(quota) > 0 else 0.0


def read_text(path: str) -> str:
    """Return what a file of the kernel's says, or nothing where there is none."""
    try:
        with open(path) as file:  # noqa: PTH123  # pathlib would be imported for this alone
            return file.read().strip()
    except OSError:  # there is no such controller
        return ""
