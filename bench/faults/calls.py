"""What is shipped to the executors: calls that do harm, and good ones beside them.

They sleep for as long as such a call takes, so that others run or wait when it does its harm.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


def good(number: int) -> int:
    time.sleep(0.005)
    return number


def kill_itself() -> None:
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    import ctypes

    ctypes.string_at(0)


def exit_status() -> None:
    time.sleep(0.05)
    os._exit(3)


def raise_system_exit() -> None:
    sys.exit(3)


class TwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def raise_two_arguments() -> None:
    raise TwoArguments(4, "four")


def _load_raising() -> None:
    raise ValueError("not today")


class RaisesWhenLoaded:
    def __reduce__(self) -> Any:
        return _load_raising, ()


def answer_raising() -> Any:
    return RaisesWhenLoaded()


def _load_exiting() -> None:
    os._exit(5)


class ExitsWhenLoaded:
    def __reduce__(self) -> Any:
        return _load_exiting, ()


def answer_exiting() -> Any:
    return ExitsWhenLoaded()


def take(_value: object) -> str:
    return "taken"


def answer_lock() -> Any:
    return threading.Lock()


def close_standard() -> str:
    for fd in (0, 1, 2):
        os.close(fd)
    return "closed"


def change_directory() -> str:
    os.chdir("/")
    return "changed"


def where() -> str:
    time.sleep(0.005)
    return str(Path.cwd())


def leave_thread() -> str:
    threading.Thread(target=time.sleep, args=(8,)).start()
    return "left"


def fork_and_return() -> str:
    return "parent" if os.fork() else "child"


def hang(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(20)
