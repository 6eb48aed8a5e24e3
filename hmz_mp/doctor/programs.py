"""Programs and Python packages that agents run on: which are there, and of what version.

Asks a program for its version, inside a bound, and nothing else of it. Imported by
``hmz-mp doctor``; it knows nothing of how a program is driven.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

__all__ = ["PACKAGES", "PROGRAMS", "Found", "Known", "find_packages", "find_programs"]

SECONDS = 20.0  # for a program to say its version; the slowest seen took 9
_AT_ONCE = 4
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_LONGEST = 40

# What keeps a program that only has to say its version from looking for updates.
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
}


class Known(NamedTuple):
    """A program or package, the agents it is for, and the bytes one process of it was seen to hold.

    ``memory`` is ``None`` where nobody has measured it. ``key`` is the variable of the environment
    that has the key of the package's service, if it needs one.
    """

    name: str
    agents: str
    memory: int | None = None
    key: str = ""

    @property
    def has_key(self) -> bool:
        """Whether that variable is set; what it is set to is nobody's business."""
        return bool(os.environ.get(self.key))


PROGRAMS = (
    Known("claude", "claude/", 200 << 20),
    Known("codex", "codex/", 143 << 20),
    Known("opencode", "acp/opencode acp", 650 << 20),
    Known("gemini", "acp/gemini --experimental-acp"),
    Known("qwen", "acp/qwen --acp", 490 << 20),
    Known("kimi", "acp/kimi --acp"),
)
PACKAGES = (
    Known("agent-client-protocol", "acp/"),
    Known("openai", "openai/", key="OPENAI_API_KEY"),
    Known("anthropic", "anthropic/", key="ANTHROPIC_API_KEY"),
)


class Found(NamedTuple):
    """What was found of one: where it is, its version, or what went wrong.

    ``path`` is ``None`` for what is not there, and for packages.
    """

    known: Known
    path: str | None = None
    version: str | None = None
    problem: str | None = None

    @property
    def works(self) -> bool:
        """Whether it is there and has said its version."""
        return self.version is not None


def find_programs(known: tuple[Known, ...] = PROGRAMS, *, seconds: float = SECONDS) -> list[Found]:
    """Look for programs on PATH and ask those that are there for their versions."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hmz-mp-doctor") as threads:
        return list(threads.map(lambda one: _program(one, seconds), known))


def find_packages(known: tuple[Known, ...] = PACKAGES) -> list[Found]:
    """Look for Python packages in this environment; none is imported."""
    found = []
    for one in known:
        try:
            found.append(Found(one, version=importlib.metadata.version(one.name)))
        except importlib.metadata.PackageNotFoundError:
            found.append(Found(one))
    return found


def _program(known: Known, seconds: float) -> Found:
    path = shutil.which(known.name)
    if path is None:
        return Found(known)
    try:
        status, output = _ask([path, "--version"], seconds)
    except OSError as error:
        return Found(known, path, problem=f"it cannot be run: {error.strerror or error}")
    except subprocess.TimeoutExpired:
        return Found(known, path, problem=f"it did not say its version in {seconds:g} s")
    version = _VERSION.search(output)
    if status != 0:
        last = (output.strip().splitlines() or [""])[-1].strip()
        said = f": {last}" if last else ""
        return Found(known, path, problem=f"--version ended with status {status}{said}")
    if version is None:
        return Found(known, path, problem="it printed no version")
    return Found(known, path, version[0][:_LONGEST])


def _ask(command: list[str], seconds: float) -> tuple[int, str]:
    """Run a program, with all it starts; return its status and the end of what it printed."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **_QUIET},
        start_new_session=True,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        finally:
            with suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for zombies
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output.decode("utf-8", "replace")
