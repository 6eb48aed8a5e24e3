"""The memory of this machine, or of what this process may use of it.

Imported by who has to know how much there is left: the pool's watch, and ``hmz-mp doctor``.
"""

from __future__ import annotations

import os

from hmz_mp.core.cpus import StrPath, folders_up, read_text

__all__ = ["MachineMemory", "machine_memory"]

_KEPT_FREE = 0.05  # of all memory: with less available no further turn begins,
_KEPT_FREE_MOST = 1 << 30  # or than this many bytes, whichever is less


class MachineMemory:
    """The memory that may be used here in all, and what of it is available, in bytes."""

    __slots__ = ("available", "total")

    def __init__(self, total: int, available: int) -> None:
        self.total = total
        self.available = available

    @property
    def kept_free(self) -> float:
        """How many bytes of it are to stay available."""
        return min(_KEPT_FREE * self.total, _KEPT_FREE_MOST)

    def is_short(self) -> bool:
        """Whether no more work should begin."""
        return self.available < self.kept_free


def machine_memory(root: StrPath = "/sys/fs/cgroup", proc: StrPath = "/proc") -> MachineMemory:
    """Return the memory of this machine, or of this process's cgroup if that has less of it."""
    root, proc = os.fspath(root), os.fspath(proc)
    lines = read_text(f"{proc}/meminfo").splitlines()
    fields = dict(line.split()[:2] for line in lines if len(line.split()) > 1)
    if "MemAvailable:" in fields:
        total = int(fields["MemTotal:"]) << 10
        available = int(fields["MemAvailable:"]) << 10
    else:
        import psutil  # a slow import, for where there is no /proc

        found = psutil.virtual_memory()
        total, available = found.total, found.available
    for limit, used in _cgroups(root, proc):
        if limit < total:
            total = limit
        available = min(available, max(0, limit - used))
    return MachineMemory(total, available)


def _cgroups(root: str, proc: str) -> list[tuple[int, int]]:
    """Return limit and use of the memory of this process's cgroups that have a limit."""
    found = []
    for line in read_text(f"{proc}/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            top, limit, used, cache = root, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = f"{root}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        for folder in folders_up(top, path):
            words = read_text(f"{folder}/{limit}"), read_text(f"{folder}/{used}")
            if words[0].isdigit() and words[1].isdigit():
                statistics = dict(
                    line.split() for line in read_text(f"{folder}/memory.stat").splitlines()
                )
                taken = int(words[1]) - int(statistics.get(cache, 0))
                found.append((int(words[0]), taken))
    return found
