"""What chaos ships to workers. Each call says in a file when it begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hmz_mp import session_state


class Odd(Exception):
    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(text)
        self.code = code


class Present:
    """Says that a call is here, for as long as it is; leaves its mark if the process ends."""

    def __init__(self, folder: str, number: int) -> None:
        self._mark = Path(folder) / f"{number}-{os.getpid()}"

    def __enter__(self) -> None:
        self._mark.touch()

    def __exit__(self, *_: object) -> None:
        self._mark.unlink(missing_ok=True)


def overlap(folder: str, number: int) -> int:
    """Return how many calls are here at once, of processes that are alive."""
    with Present(folder, number):
        time.sleep(0.002)
        return len({mark for mark in os.listdir(folder) if _lives(int(mark.rpartition("-")[2]))})


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def fast(number: int) -> int:
    return number


def slow(number: int) -> int:
    time.sleep(0.03)
    return number


def fail(number: int) -> int:
    raise ValueError(number)


def fail_oddly(number: int) -> int:
    raise Odd(number, text="odd")


def exit_(number: int) -> int:
    sys.exit(number)


def print_much(number: int) -> int:
    print("x" * 20_000)
    os.write(2, b"y" * 20_000)
    return number


def huge(number: int, data: bytes) -> tuple[int, bytes]:
    return number, data


def kill_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def end_itself(number: int) -> int:
    os._exit(number % 100 + 1)


def fork_and_return(number: int) -> int:
    os.fork()
    return number


def leave_child(number: int) -> int:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    return number


def leave_daemon(number: int) -> int:
    subprocess.Popen(["sleep", "60"], start_new_session=True)
    return number


def leave_thread(number: int) -> int:
    threading.Thread(target=time.sleep, args=(60,)).start()
    return number


def close_descriptors(number: int) -> int:
    os.closerange(0, 3)
    return number


def change_directory(number: int) -> int:
    os.chdir("/")
    os.environ["CHAOS"] = str(number)
    return number


def unpicklable(number: int) -> Any:
    return threading.Lock()


def hang(number: int) -> int:
    time.sleep(600)
    return number


def hang_stubbornly(number: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
    return number


async def wait(number: int) -> int:
    await asyncio.sleep(0.01)
    return number


async def wait_stubbornly(number: int) -> int:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)


def heed_soon() -> None:
    """Have async calls of this process that go on when they are cancelled dropped soon."""
    from hmz_mp_worker import turns

    turns._HEED = 0.2


async def wait_and_fail(number: int) -> int:
    await asyncio.sleep(0.001)
    raise Odd(number, text="later")


def next_of_session(number: int) -> tuple[int, list[int], int]:
    numbers = session_state().setdefault("numbers", [])
    numbers.append(number)
    return number, list(numbers), os.getpid()
