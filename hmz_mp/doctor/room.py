"""CPUs and memory: how much there is for runs, and why so much.

Imported by ``hmz-mp doctor``; the numbers are from ``core``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.core.cpus import CpuBounds
    from hmz_mp.core.watch import MachineMemory

__all__ = ["cpu_reasons", "processes_that_fit"]

_KEPT_FREE = 0.05  # of all memory: with less available, pools begin no further turn
_KEPT_FREE_MOST = 1 << 30


def cpu_reasons(bounds: CpuBounds) -> str:
    """Return why so many CPUs would be used, as a phrase."""
    said = [f"{bounds.present} here"]
    if bounds.affinity is not None and bounds.affinity < bounds.present:
        said.append(f"affinity leaves {bounds.affinity}")
    if bounds.quota is not None:
        said.append(f"the cgroup's quota is {bounds.quota:g}")
    if bounds.share is not None:
        said.append(f"this worker's share is {bounds.share}")
    return ", ".join(said)


def processes_that_fit(memory: MachineMemory, each: int) -> int:
    """Return how many processes of ``each`` bytes the available memory bears."""
    kept_free = min(_KEPT_FREE * memory.total, _KEPT_FREE_MOST)
    return max(0, int((memory.available - kept_free) // each))
