"""CPUs and memory: how much there is for runs, and why so much.

Imported by ``hmz-mp doctor``; the numbers are from ``core``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmz_mp.core.cpus import CpuBounds
    from hmz_mp.core.machine import MachineMemory

__all__ = ["cpu_reasons", "processes_that_fit"]


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
    return max(0, int((memory.available - memory.kept_free) // each))
