"""What tests run in workers: importable there, light to import, observed through files."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from typing import Any, NoReturn


def overlap(where: str) -> int:
    """Return how many of these were at work in ``where`` while this one was."""
    mine = _arrive(where)
    seen = 0
    for _ in range(5):
        seen = max(seen, len(os.listdir(where)))
        time.sleep(0.001)
    os.unlink(mine)
    return seen


async def overlap_async(where: str) -> int:
    """Do the same in an async turn."""
    mine = _arrive(where)
    seen = 0
    for _ in range(5):
        seen = max(seen, len(os.listdir(where)))
        await asyncio.sleep(0.001)
    os.unlink(mine)
    return seen


def _arrive(where: str) -> str:
    mine = os.path.join(where, f"{os.getpid()}-{time.monotonic_ns()}")
    with open(mine, "x"):
        return mine


def wait_for(path: str, answer: Any = None) -> Any:
    """Answer once there is a file at ``path``."""
    while not os.path.exists(path):
        time.sleep(0.001)
    return answer


async def wait_for_async(path: str, answer: Any = None) -> Any:
    """Do the same in an async turn."""
    while not os.path.exists(path):  # noqa: ASYNC110  # what it waits for has no event here
        await asyncio.sleep(0.001)
    return answer


def note(path: str, text: str = "") -> None:
    """Add a line to a file, in one write."""
    with open(path, "a") as file:
        file.write(f"{text}\n")


def note_and_hang(path: str) -> None:
    """Write this process's pid, and do not end."""
    note(path, str(os.getpid()))
    while True:
        time.sleep(60)


async def note_and_hang_async(path: str) -> None:
    """Do the same in an async turn; note its cancellation too."""
    note(path, str(os.getpid()))
    try:
        await asyncio.Event().wait()
    finally:
        note(path, "cancelled")


def die(path: str = "") -> NoReturn:
    """End this process at once, having noted it."""
    if path:
        note(path, str(os.getpid()))
    print("last words")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_the_first_time(path: str) -> str:
    """End this process, but for the second time."""
    if os.path.exists(path):
        return "lived"
    die(path)


def fail(error: BaseException) -> NoReturn:
    """Raise what was given."""
    raise error


async def fail_async(error: BaseException) -> NoReturn:
    """Raise what was given, in an async turn."""
    await asyncio.sleep(0)
    raise error


def identity(value: Any) -> Any:
    """Return what was given."""
    return value


async def identity_async(value: Any) -> Any:
    """Return what was given, from an async turn."""
    await asyncio.sleep(0)
    return value


def fail_on(value: int, bad: int) -> int:
    """Return what was given, but for one value."""
    if value == bad:
        raise ValueError(f"not {bad}")
    return value


def logs(level: int, text: str) -> None:
    """Log something."""
    logging.getLogger("worker.side").log(level, text)


def speak(text: str) -> int:
    """Print, log, report progress, say something."""
    from hmz_mp_worker.reporting import progress, say

    print(text)
    logging.getLogger("worker.side").warning("logged %s", text)
    progress(0.5, text)
    say("kind", text.encode())
    return os.getpid()


def count_state() -> int:
    """Count the calls of this session."""
    from hmz_mp_worker.state import session_state

    state = session_state()
    state["count"] = state.get("count", 0) + 1
    return int(state["count"])


async def count_state_async() -> int:
    """Count the calls of this session, in an async turn."""
    await asyncio.sleep(0)
    return count_state()


class Callable:
    """A callable object, and methods of every kind."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, value: int) -> int:
        return value * self.factor

    def method(self, value: int) -> int:
        return value * self.factor

    @classmethod
    def by_class(cls, value: int) -> str:
        return f"{cls.__name__} {value}"

    @staticmethod
    def plain(value: int) -> int:
        return value + 1


class AsyncCallable(Callable):
    """A callable object that is async."""

    async def __call__(self, value: int) -> int:  # type: ignore[override]  # the point of it
        await asyncio.sleep(0)
        return value * self.factor
