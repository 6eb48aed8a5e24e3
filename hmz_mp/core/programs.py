"""How many agent programs the memory bears: those that run are measured, and more have to fit.

What `ProgramRoom` decides is pure; how much memory programs take is read by `own_memory` and
`programs_of`. Imported by ``watch``, which looks now and then, and by the pool.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hmz_mp.core.cpus import read_text
from hmz_mp.core.statistics import resident_memory
from hmz_mp_worker import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hmz_mp.core.gates import Gate
    from hmz_mp.core.machine import MachineMemory

__all__ = ["NAME", "USUAL", "ProgramRoom", "own_memory", "programs_of"]

NAME = "agent programs"  # of the limit
USUAL = 128 << 20  # bytes of a program, until one was measured: Claude Code was seen to have 113
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProgramRoom:
    """Bounds the turns of one pool that have programs of their own."""

    # The whole state: the gate; the programs that were there at the last look, and how many turns;
    # what each is taken to need; and whether it was said that they wait.
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.each = 0
        self._seen: set[int] = set()
        self._used = 0
        self._said = False

    def room(self, trees: Mapping[int, int], memory: MachineMemory) -> int:
        """Return how many turns may be in flight, one at least.

        ``trees`` has the bytes of each program, with all that it has started, by its pid.
        """
        grown = [held for pid, held in trees.items() if pid in self._seen]
        if grown:
            self.each = max(1, sum(grown) // len(grown))
        each = self.each or USUAL
        # What has just begun has yet to take what the others have, or even to be seen.
        begun = self.gate.used - self._used - len(trees.keys() - self._seen)
        growing = sum(max(0, each - held) for pid, held in trees.items() if pid not in self._seen)
        growing += each * max(0, begun)
        self._seen = set(trees)
        self._used = self.gate.used
        fits = (memory.available - memory.kept_free - growing) // each
        return max(1, self.gate.used + int(fits))

    def words(self, memory: MachineMemory) -> str | None:
        """Return what is to be said, once, when turns wait for what is known to be needed."""
        gate = self.gate
        waiting = gate.count_waiting()
        if self._said or not self.each or not waiting or gate.used < gate.capacity:
            return None
        self._said = True
        return (
            f"the memory bears no more agent programs: {len(self._seen)} run, of "
            f"{self.each >> 20} MiB each, and {memory.available >> 20} MiB of "
            f"{memory.total >> 20} MiB are available; turns that wait: {waiting}"
        )


def programs_of(worker: int | None) -> dict[int, int]:
    """Return the bytes that each program of a host worker holds, with all that it has started."""
    if worker is None:
        return {}
    if sys.platform == "linux":
        trees = {root: [root, *kernel.descendants(root)] for root in kernel.children(worker)}
        return {root: sum(map(own_memory, tree)) for root, tree in trees.items()}
    import psutil  # a slow import

    try:
        roots = [child.pid for child in psutil.Process(worker).children()]
    except psutil.Error:
        return {}
    return {root: resident_memory(root, tree=True) for root in roots}


def own_memory(pid: int) -> int:
    """Return the bytes that a process shares with no file: what one more like it would take."""
    words = read_text(f"/proc/{pid}/statm").split()
    return (int(words[1]) - int(words[2])) * _PAGE if len(words) > 2 else 0
