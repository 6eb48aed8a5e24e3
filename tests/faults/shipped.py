"""What several of these tests ship to workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(20)"]


def pid() -> int:
    return os.getpid()


def double(number: int) -> int:
    return 2 * number


def die_by(number: int) -> None:
    os.kill(os.getpid(), number)


def wait_for(path: str) -> str:
    """Run until a file is there, after saying which process this is."""
    Path(path + ".begun").write_text(f"{os.getpid()}\n")
    while not Path(path).exists():
        time.sleep(0.002)
    return "saw it"


def say_and_hang(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    while True:
        time.sleep(1)


def hang_ignoring(path: str) -> None:
    """Run for ever, whatever signal asks this to end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say_and_hang(path)


def start_and_hang(path: str, *, session: bool) -> None:
    """Start a child, say which processes there are, and run for ever."""
    child = subprocess.Popen(SLEEPER, start_new_session=session)
    Path(path).write_text(f"{os.getpid()} {child.pid}\n")
    while True:
        time.sleep(1)
