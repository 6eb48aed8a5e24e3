"""What the workers of every contender run.

Light to import, as some workloads time the import, and others weigh who has imported it. Those that
sleep stand for calls that wait, or stay until they are killed.
"""

from __future__ import annotations

import os
import time

__all__ = [
    "burn",
    "burn_checked",
    "count_lines",
    "meet",
    "no_op",
    "no_op_turn",
    "parse",
    "pause",
    "wait_blocking",
    "wait_half",
]

MEETING = 10.0  # seconds that one waits for the others
AGENT_SECONDS = 0.5


def no_op(value: object) -> object:
    """Return what came."""
    return value


def parse(path: str) -> int:
    """Parse a Python file; return how many nodes it has."""
    import ast

    with open(path, "rb") as file:
        return sum(1 for _ in ast.walk(ast.parse(file.read())))


def meet(place: tuple[str, int]) -> int:
    """Wait in a directory until so many processes are there; return this one's pid.

    So every worker of a contender has answered, not the quickest of them twice.
    """
    directory, count = place
    with open(f"{directory}/{os.getpid()}", "wb"):
        pass
    end = time.monotonic() + MEETING
    while len(os.listdir(directory)) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"fewer than {count} workers ran at once")
        time.sleep(0.0002)
    return os.getpid()


def pause(path: str) -> None:
    """Write this process's pid to a file and stay until killed."""
    with open(f"{path}.draft", "w") as draft:
        draft.write(str(os.getpid()))
    os.rename(f"{path}.draft", path)
    time.sleep(60)


def burn(rounds: int) -> float:
    """Compute for long; return the CPU seconds that it took."""
    return burn_checked(rounds)[1]


def burn_checked(rounds: int) -> tuple[int, float]:
    """Compute for long; return what came out, and the CPU seconds that it took."""
    began = time.thread_time()
    value = 0
    for number in range(rounds):
        value = (value * 31 + number) & 0xFFFFFFFF
    return value, time.thread_time() - began


def count_lines(prompt: str, path: str) -> str:  # noqa: ARG001  (what a tool is given)
    """Return how many lines a file has; as a tool of an agent."""
    with open(path, "rb") as file:
        return str(file.read().count(b"\n"))


async def wait_half(prompt: str) -> str:
    """Wait half a second, as a turn of an agent that asks a model does; return the prompt."""
    import asyncio

    await asyncio.sleep(AGENT_SECONDS)
    return prompt


def wait_blocking(prompt: str) -> str:
    """Wait as long, and keep the process."""
    time.sleep(AGENT_SECONDS)
    return prompt


def no_op_turn(prompt: str) -> str:
    """Return the prompt: the cheapest turn of a tool."""
    return prompt
