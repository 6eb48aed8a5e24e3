"""What the tests of executors ship to workers."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn


def wait_for(path: str) -> str:
    """Run until a file is there."""
    Path(path + ".begun").touch()
    while not Path(path).exists():
        time.sleep(0.002)
    return "saw it"


def wait_after(_: object, path: str) -> str:
    """Do the same."""
    return wait_for(path)


def fail(text: str) -> NoReturn:
    raise ValueError(text)


def shout(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)
    os.write(1, b"raw\n")
    logging.getLogger("from.worker").error("logged %s", text)


def never() -> NoReturn:
    while True:
        time.sleep(60)


def note(path: str) -> int:
    """Write down that this call ran."""
    with Path(path).open("a") as file:
        file.write("x")
    return os.getpid()


class EndsOnPickle:
    """Ends whoever pickles it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        end(self.how)
        return None


class EndsOnLoad:
    """Ends whoever loads it."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return end, (self.how,)


def end(how: str) -> None:
    if how == "raise":
        raise ArithmeticError("no")
    if how == "sys.exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(3)
    os.abort()


def answer_pickled(how: str) -> EndsOnPickle:
    return EndsOnPickle(how)


def answer_loaded(how: str) -> EndsOnLoad:
    return EndsOnLoad(how)
