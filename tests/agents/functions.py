"""Functions that tests give to ``tool/`` agents; they run in workers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from hmz_mp import progress, session_state


def shout(text: str) -> str:
    return text.upper()


def about(text: str, path: str, item_id: str, task: str) -> list[str]:
    return [text, path, item_id, task]


def item(text: str, item_id: str) -> str:
    return item_id


def where(text: str) -> str:
    return os.getcwd()


def pair(text: str) -> dict[str, object]:
    return {"name": text, "size": len(text)}


class Odd(Exception):
    """A failure of the tests' own."""


def fail_on_bad(text: str) -> str:
    if text.startswith("bad"):
        raise Odd(f"{text} is bad\nand more")
    return text


def die(text: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return text


def count(text: str) -> str:
    state = session_state()
    state["seen"] = [*state.get("seen", []), text]
    return " ".join(state["seen"])


def note(text: str) -> str:
    """Write when this turn ran, as ``NAME BEGAN ENDED``, into the file of the prompt."""
    file, name, seconds = text.split("|")
    began = time.monotonic()
    time.sleep(float(seconds))
    _append(file, f"{name} {began} {time.monotonic()}\n")
    return name


async def anote(text: str) -> str:
    file, name, seconds = text.split("|")
    began = time.monotonic()
    await asyncio.sleep(float(seconds))
    _append(file, f"{name} {began} {time.monotonic()}\n")
    return name


def _append(file: str, line: str) -> None:
    with open(file, "a") as out:
        out.write(line)


def hold(text: str) -> str:
    """Say in the prompt's directory that this turn began; answer once the file ``go`` is there."""
    directory, name = text.split("|")
    Path(directory, f"{name}.began").write_text(f"{os.getpid()}\n")
    while not Path(directory, "go").exists():
        time.sleep(0.01)
    return name


async def ahold(text: str) -> str:
    directory, name = text.split("|")
    Path(directory, f"{name}.began").write_text(f"{os.getpid()}\n")
    try:
        while not Path(directory, "go").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        Path(directory, f"{name}.cancelled").touch()
        raise
    return name


def talk(text: str) -> str:
    print("printed", text)
    progress(0.5, "half")
    return text
