"""What works on this machine, tried rather than guessed.

Each check does the thing once. Imported by ``hmz-mp doctor``.
"""

from __future__ import annotations

import mmap
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.errors import HmzMpError
from hmz_mp.futures import ProcessExecutor
from hmz_mp.worktrees.checkout import OLDEST_GIT
from hmz_mp_worker.kernel import open_process
from hmz_mp_worker.page import anonymous_file

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ability", "look"]

_START_SECONDS = 30.0
_FEW_DESCRIPTORS = 1024
_FEW_PROCESSES = 256
_OLDEST_SQLITE = (3, 24, 0)


class Ability(NamedTuple):
    """One thing that runs use: whether it works here, and what there is to say of it.

    Without what is ``needed`` nothing runs; the rest makes runs better, or is for an option.
    """

    name: str
    works: bool
    words: str
    needed: bool = False


def look(here: Path) -> list[Ability]:
    """Try everything and return it in the order to be told; ``here`` is where runs would start."""
    checks: tuple[Callable[[], Ability], ...] = (
        _workers,
        _shared_memory,
        _process_ends,
        _orphans,
        _open_files,
        _processes,
        lambda: _ledger(here),
        _git,
    )
    return [check() for check in checks]


def _workers() -> Ability:
    began = time.monotonic()
    try:
        with ProcessExecutor(1, start_timeout=_START_SECONDS) as executor:
            pid = executor.submit(os.getpid).result(_START_SECONDS)
    except (HmzMpError, OSError, TimeoutError) as error:
        return Ability("workers", False, f"a worker could not be started: {error}", needed=True)
    seconds = time.monotonic() - began
    words = f"one was started and answered in {1000 * seconds:.0f} ms"
    return Ability("workers", pid != os.getpid(), words, needed=True)


def _shared_memory() -> Ability:
    try:
        number = anonymous_file("hmz-mp-doctor")
        try:
            os.ftruncate(number, mmap.PAGESIZE)
            with mmap.mmap(number, mmap.PAGESIZE) as memory:
                memory[:4] = b"here"
        finally:
            os.close(number)
    except OSError as error:
        words = f"cannot be had: {error.strerror or error}"
        return Ability("shared memory", False, words, needed=True)
    how = "memfd" if hasattr(os, "memfd_create") else f"files in {tempfile.gettempdir()}"
    return Ability("shared memory", True, f"by {how}", needed=True)


def _process_ends() -> Ability:
    number = open_process(os.getpid())
    if number is None:
        return Ability("pidfd", False, "not here; ends are heard of by connections")
    os.close(number)
    return Ability("pidfd", True, "the end of a process is an event")


def _orphans() -> Ability:
    if sys.platform == "linux":
        return Ability("orphans", True, "what a turn leaves running is adopted and ended")
    return Ability("orphans", False, "not here: only process groups are ended, no other orphans")


def _open_files() -> Ability:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = f"{_limit(soft)} at once (at most {_limit(hard)})"
    enough = soft == resource.RLIM_INFINITY or soft >= _FEW_DESCRIPTORS
    hint = "" if enough else "; wide runs want more: ulimit -n 4096"
    return Ability("open files", enough, words + hint)


def _processes() -> Ability:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    enough = soft == resource.RLIM_INFINITY or soft >= _FEW_PROCESSES
    return Ability("processes", enough, f"{_limit(soft)} of this user at once")


def _limit(number: int) -> str:
    return "no limit" if number == resource.RLIM_INFINITY else f"{number:,}"


def _ledger(here: Path) -> Ability:
    version = tuple(map(int, sqlite3.sqlite_version.split(".")))
    about = f"SQLite {sqlite3.sqlite_version}"
    if version < _OLDEST_SQLITE:
        return Ability(
            "ledger", False, f"{about} is older than 3.24, which writing runs down needs"
        )
    if not os.access(here, os.W_OK | os.X_OK):
        return Ability("ledger", False, f"{about}; nothing can be written in {str(here)!r}")
    return Ability("ledger", True, f"{about}; runs are written down in .hmz-mp here")


def _git() -> Ability:
    path = shutil.which("git")
    if path is None:
        return Ability("git", False, "not found; --changed-since and --worktree need it")
    try:
        asked = subprocess.run(
            [path, "--version"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Ability("git", False, f"{path} cannot be run: {error}")
    said = re.search(rb"(\d+)\.(\d+)[\w.]*", asked.stdout)
    if said is None:
        return Ability("git", False, f"{path} --version ended with status {asked.returncode}")
    version = said[0].decode("ascii")
    if (int(said[1]), int(said[2])) < OLDEST_GIT:
        needed = ".".join(map(str, OLDEST_GIT))
        return Ability("git", False, f"{version}; --worktree needs {needed} or later")
    return Ability("git", True, f"{version}, {path}")
