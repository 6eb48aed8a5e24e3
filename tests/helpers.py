"""What tests share: bounded waiting, scripts in processes of their own, what a process holds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil

from hmz_mp_worker import kernel

BOUND = 15.0  # seconds; far more than anything waited for takes
_POLL = 0.005


def wait_until(condition: Callable[[], object], timeout: float = BOUND) -> None:
    """Return once ``condition()`` is true. Fails after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s in vain"
        time.sleep(_POLL)


async def await_until(condition: Callable[[], object], timeout: float = BOUND) -> None:
    """Do the same on a loop, which goes on meanwhile."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout} s in vain"
        await anyio.sleep(_POLL)


def is_alive(pid: int) -> bool:
    """Whether a process has not ended; one that waits to be reaped has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(path: Path) -> str:
    """Return the whole lines of a file that another process writes, or an empty string."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""


@dataclass(frozen=True)
class Ran:
    """How a script ended."""

    stdout: str
    stderr: str
    returncode: int


def run_script(
    tmp_path: Path,
    source: str,
    *args: str,
    name: str = "script.py",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 45.0,
) -> Ran:
    """Write ``source`` to a file and run it by ``python FILE ARGS``."""
    file = tmp_path / name
    file.write_text(source)
    return run_python([str(file), *args], cwd=cwd or tmp_path, env=env, timeout=timeout)


def run_python(
    args: list[str],
    *,
    cwd: Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 45.0,
) -> Ran:
    """Run ``python ARGS`` to its end, with ``stdin`` to read."""
    ended = subprocess.run(
        [sys.executable, *args],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        check=False,
    )
    return Ran(ended.stdout, ended.stderr, ended.returncode)


@dataclass(frozen=True)
class Holdings:
    """What this process holds: children, descriptors (with what they are), threads."""

    children: frozenset[int]
    descriptors: frozenset[tuple[int, str]]
    threads: frozenset[threading.Thread]

    @classmethod
    def now(cls) -> Holdings:
        """Return what is held now."""
        return cls(frozenset(_children()), frozenset(_descriptors()), frozenset(_threads()))

    def beyond(self, before: Holdings) -> list[str]:
        """Return what is held here and was not before, as lines for people."""
        lines = [f"process {pid}: {_command(pid)}" for pid in self.children - before.children]
        lines += [f"descriptor {fd}: {what}" for fd, what in self.descriptors - before.descriptors]
        lines += [f"thread {thread.name}" for thread in self.threads - before.threads]
        return lines

    def beyond_wider(self, before: Holdings) -> list[str]:
        """Return the same where a pool that outlives the test was open before it.

        That pool starts workers, and its loop threads, whenever it needs them.
        """
        return Holdings(self.children, before.descriptors, before.threads).beyond(before)


def _threads() -> list[threading.Thread]:
    timer = "pytest_timeout"  # the plugin's own, one for each test
    return [
        one for one in threading.enumerate() if not one.daemon and not one.name.startswith(timer)
    ]


def _children() -> list[int]:
    if sys.platform == "linux":  # many times faster than a look at every process
        found = kernel.children(os.getpid())
    else:
        found = [child.pid for child in psutil.Process().children()]
    return [pid for pid in found if not _is_kept(pid)]


def _is_kept(pid: int) -> bool:
    """Whether a child is one that multiprocessing keeps for good."""
    return "multiprocessing.resource_tracker" in _command(pid)


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:  # it has just ended, or waits to be reaped
        return ""


def _descriptors() -> list[tuple[int, str]]:
    folder = Path("/proc/self/fd")
    found = []
    for name in os.listdir(folder) if folder.exists() else []:
        try:
            target = os.readlink(folder / name)
        except OSError:  # the one that listed the folder
            continue
        if target != "/dev/urandom":  # kept open by Python and libraries
            found.append((int(name), target))
    return found
