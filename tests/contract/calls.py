"""What the contract's tests run in workers beside `tests.core.functions`: as light to import."""

from __future__ import annotations

import os
from pathlib import Path

from tests.core import functions


def hold(path: str, size: int) -> None:
    """Take memory, and do not end."""
    taken = bytearray(size)
    taken[:: 1 << 12] = b"x" * len(taken[:: 1 << 12])
    functions.note_and_hang(path)


def start_a_child_and_hang(path: str) -> None:
    """Start a process in a session of its own, write its pid, and do not end."""
    import subprocess

    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    functions.note(path, str(child.pid))
    functions.note_and_hang(f"{path}.worker")


def meet(mine: str, theirs: str) -> int:
    """Answer once another one is here too."""
    Path(mine).touch()
    functions.wait_for(theirs)
    return os.getpid()


def note_or_wait(path: str, text: str, until: str) -> None:
    """Write a line; wait for a file, if one is named."""
    functions.note(path, text)
    if until:
        functions.wait_for(until)


async def speak_async(text: str) -> int:
    """Say everything that can be said, in an async turn."""
    return functions.speak(text)
