"""Contenders that do what a contender must not; each runs in a process of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hmz_mp_bench.contenders.base import Function
from hmz_mp_bench.contenders.standard import Serial


class Wrong(Serial):
    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        right = await super().gathered(function, items)
        return [*right[:-1], -1]


class Raising(Serial):
    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        raise ExceptionGroup("one", [ValueError("a \x1b[31mreason")])


class Exiting(Serial):
    async def open(self) -> None:
        print("it is all \x1b[31mover", flush=True)
        os._exit(3)


class Killed(Serial):
    async def open(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hanging(Serial):
    """Hangs, and has started a process that left its group."""

    async def open(self) -> None:
        hang()


def hang() -> None:
    if not os.fork():
        os.setsid()
        Path(os.environ["FAKE_NOTE"]).write_text(f"{os.getpid()}\n")
    signal.pause()


class NotToEnd(Serial):
    """Measures well, and then does not end: a thread of it goes on."""

    async def close(self) -> None:
        threading.Thread(target=time.sleep, args=(60,)).start()
