"""Tools that models of the tests call."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

from hmz_mp import tool
from tests.tools.width import wide

__all__ = [
    "TooBusy",
    "Weather",
    "busy",
    "dies",
    "late",
    "mutates",
    "odd",
    "slow",
    "weather",
    "wide",
]


class Weather(msgspec.Struct):
    city: str
    degrees: int


class TooBusy(Exception):
    def __init__(self, status: int, retry_after: float | None = None) -> None:
        super().__init__(status, retry_after)
        self.status = status
        self.retry_after = retry_after


@tool
def weather(city: str, days: int = 1) -> Weather:
    """What the weather will be."""
    if city == "Nowhere":
        raise LookupError(f"no {city}")
    return Weather(city, 20 + days)


@tool
async def late(text: str, seconds: float) -> str:
    """Say a text after a while."""
    await asyncio.sleep(seconds)
    return text


@tool(timeout=0.2)
def slow() -> None:
    time.sleep(60)


@tool
def dies() -> None:
    os._exit(3)


@tool
def mutates(items: list[Any], options: dict[str, Any]) -> list[Any]:
    items.append("more")
    options.clear()
    return items


@tool
def odd(what: str) -> Any:
    """Return what JSON has trouble with."""
    return {
        "object": msgspec.UNSET,
        "complex": complex(1, 2),
        "set": {1},
        "surrogate": {"name": "\udcff"},
        "nan": float("nan"),
        "bytes": b"\xff",
        "keys": {(1, 2): 3},
        "none": None,
        "lambda": str.upper,
        "text": "plain \ud83d text",
        "unpicklable": lambda: None,
    }[what]


@tool
def busy(file: str, times: int) -> str:
    """Fail with status 429 the first few times."""
    with open(file, "a") as out:
        out.write(f"{time.time()}\n")
    with open(file) as lines:
        if len(lines.readlines()) <= times:
            raise TooBusy(429, 0.2)
    return "served"
