"""One measurement in a fresh process: started, bounded in time, ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from hmz_mp_bench.procedures import Figures

__all__ = ["Measured", "run_fresh", "run_module", "run_start"]

_TOLD = 200  # characters of what a process said last
_LOOK = 0.5  # seconds between two looks whether a result was written
_SHORT = 40  # characters of a directory in which there is room for the name of a socket
_LEAVING = 5.0  # seconds from a result to the end of its process, before it is ended


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of one measurement: figures, or ``problem`` in one line.

    ``said`` is what it had to tell beside figures.
    """

    figures: Figures = field(default_factory=dict)
    problem: str | None = None
    said: str = ""


def run_fresh(contender: str, procedure: str, count: int, workers: int, timeout: float) -> Measured:
    """Measure one contender by one procedure, once. Never raises for what it does."""
    arguments = ["hmz_mp_bench.one", contender, procedure, str(count), str(workers)]
    return run_module(arguments, timeout)[0]


def run_start(contender: str, workers: int, timeout: float) -> Measured:
    """Measure how long a whole process of a contender takes to its first answers, and to end."""
    began = time.perf_counter()
    measured, ended = run_module(
        ["hmz_mp_bench.starts", contender, str(workers), repr(began)], timeout
    )
    if measured.problem is None and ended is not None:
        measured.figures["whole"] = ended - began
    return measured


def run_module(arguments: list[str], timeout: float) -> tuple[Measured, float | None]:
    """Run ``python -m ARGUMENTS OUT``; return what it wrote to OUT, and when it ended."""
    with tempfile.TemporaryDirectory(prefix="hb-", ignore_cleanup_errors=True) as directory:
        out, said = Path(directory, "result"), Path(directory, "said")
        with said.open("wb") as output:
            # Without the current directory on its path, where a user's modules may be called
            # as the standard library's.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", *arguments, str(out)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env=_environment(directory),
            )  # fmt: skip
        try:
            ended = _wait(child, out, timeout)
        finally:
            _end(child)
        return _read(out, said, child.returncode, ended, timeout), ended


def _environment(directory: str) -> dict[str, str]:
    """Return an environment in which temporary files go where they are removed.

    Executors that are killed leave theirs. Sockets are among them, whose paths have to be short.
    """
    room = {"TMPDIR": directory, "RAY_TMPDIR": directory} if len(directory) < _SHORT else {}
    return {**os.environ, **room}


def _wait(child: subprocess.Popen[bytes], out: Path, timeout: float) -> float | None:
    """Return when the child ended, ``None`` if it did not in its time.

    One that has written its result and does not end has measured all the same.
    """
    end = time.monotonic() + timeout
    while not _has_ended(child, _LOOK):
        if out.exists():
            return time.perf_counter() if _has_ended(child, _LEAVING) else None
        if time.monotonic() > end:
            return None
    return time.perf_counter()


def _has_ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait so long for a child's end."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # there is none here: it is polled, twenty times a second
        return _ends_in(child, seconds)
    try:
        poll = select.poll()  # unlike `select.select` it takes any number of a descriptor
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _ends_in(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and what it started, which may have left its process group."""
    below: list[psutil.Process] = []
    if child.poll() is None:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(child.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for process in below:
        with contextlib.suppress(psutil.Error):
            process.kill()
    child.wait()


def _read(out: Path, said: Path, status: int, ended: float | None, timeout: float) -> Measured:
    try:
        result = json.loads(out.read_bytes())
    except (OSError, ValueError):
        if ended is None:
            return Measured(problem=f"no answer in {timeout:.0f} s")
        return Measured(problem=f"{_ending(status)}{_last_words(said)}")
    if "raised" in result:
        return Measured(problem=result["raised"][:_TOLD])
    if result["wrong"] is not None:
        return Measured(problem=f"wrong answer: {result['wrong']}"[:_TOLD])
    return Measured(result["figures"], said=result.get("said", ""))


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _last_words(said: Path) -> str:
    lines = said.read_bytes()[-4096:].decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {last[:_TOLD]}" if last else ""
