"""What is asked of the kernel about processes: death signals, orphans, descendants.

Linux has all of it. Elsewhere (macOS) the calls do nothing or find less, and the ends of
connections and process groups carry the guarantee alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
import time
from collections.abc import Iterable

__all__ = [
    "MARK",
    "adopt_orphans",
    "bears",
    "children",
    "descendants",
    "die_with_parent",
    "end_descendants",
    "exists",
    "is_running",
    "marked_by",
    "open_process",
    "punch_hole",
    "signal_all",
]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE
_LINUX = sys.platform == "linux"
_ENDING = 5.0  # seconds that killed processes have to be gone
_LOOK_EVERY = 0.002

# In the environment of agents' programs: the worker's pid, a dot and a number. What they start
# inherits it, in whatever session and under whatever parent it runs.
MARK = "HMZ_MP_PROGRAM"


@functools.cache  # looked up in the zygote, and not by each worker, whose memory it would take
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        _library().prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have this process killed when ``parent`` ends, or end now if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when ``pid`` ends, where the kernel has them."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def exists(pid: int) -> bool:
    """Return whether there is such a process of ours, be it one that waits to be reaped."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # or it is somebody else's by now
        return False
    return True


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123  # pathlib is a slow import
        return file.read()


def children(pid: int) -> list[int]:
    """Return the processes whose parent ``pid`` is, by all of its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # pathlib is a slow import
            found += [int(word) for word in _read(pid, f"task/{task}/children").split()]
    except (OSError, ValueError):  # it has ended, or there is no /proc
        pass
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes that ``pid`` started, and those started, nearest first."""
    found: list[int] = []
    fresh = [pid]
    while fresh:
        fresh = [child for one in fresh for child in children(one) if child not in found]
        found += fresh
    return found


def bears(pid: int, mark: bytes) -> bool:
    """Tell whether ``mark`` is an entry of the environment that ``pid`` was started with."""
    try:
        return mark in _read(pid, "environ").split(b"\0")
    except OSError:  # it has ended, is not ours to look at, or there is no /proc
        return False


def marked_by(workers: Iterable[int], pids: list[int]) -> list[int]:
    """Return those of ``pids`` that programs of workers left, and all that is below them."""
    prefixes = tuple(f"{MARK}={worker}.".encode() for worker in workers)
    found: list[int] = []
    for pid in pids:
        try:
            entries = _read(pid, "environ").split(b"\0")
        except OSError:
            continue
        if any(entry.startswith(prefixes) for entry in entries):
            found += [pid, *descendants(pid)]
    return found


def is_running(pid: int) -> bool:
    """Tell whether ``pid`` has not ended; one that waits to be reaped has."""
    try:
        return _read(pid, "stat").rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, IndexError):
        return False


def signal_all(pids: list[int], groups: list[int], number: int) -> None:
    """Send a signal to processes and process groups; those that have ended are passed over."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            continue
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def end_descendants(groups: Iterable[int] = ()) -> None:
    """Kill every process below this one, and process groups, until none is left; reap them.

    It looks again and again, since what is killed may have started more in between. It gives up
    after some seconds: a process that waits for a broken disk, say, is not ended by a signal.
    """
    deadline = time.monotonic() + _ENDING
    left = set(groups)
    while time.monotonic() < deadline:
        signal_all(descendants(os.getpid()), list(left), signal.SIGKILL)
        try:
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                left.discard(pid)  # a number that may be another's from now on
        except ChildProcessError:
            return
        time.sleep(_LOOK_EVERY)


def punch_hole(fd: int, start: int, length: int) -> None:
    """Give back the memory (or disk) of a range of a file, whose length stays."""
    if _LINUX and length > 0:
        fallocate = _library().fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        fallocate(fd, _PUNCH_HOLE, start, length)
