"""When the coordinator vanishes, so do its workers, all that they started, and every file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers import is_alive, wait_until, written

SCRIPT = """
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from hmz_mp import Pool

def busy(path):
    child = subprocess.Popen(["sleep", "60"])
    daemon = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path(path).write_text(f"{os.getpid()} {child.pid} {daemon.pid}\\n")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)

def idle(path):
    Path(path).write_text(f"{os.getpid()}\\n")
    while len(list(Path(path).parent.glob("idle*"))) < 4:   # each in a worker of its own
        time.sleep(0.002)

async def wait(path):
    Path(path).write_text(f"{os.getpid()}\\n")
    await asyncio.sleep(60)

async def main():
    folder = sys.argv[1]
    async with Pool(4) as pool:
        await asyncio.gather(*[pool.submit(idle, f"{folder}/idle{n}") for n in range(4)])
        turns = [pool.submit(busy, f"{folder}/busy{n}") for n in range(2)]
        turns.append(pool.submit(wait, f"{folder}/waits"))
        big = pool.submit(len, b"x" * 5_000_000)
        await big
        await asyncio.gather(*turns)

asyncio.run(main())
"""
NAMES = ("idle0", "idle1", "busy0", "busy1", "waits")


@contextmanager
def started(folder: Path, **how: Any) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Run the script until its workers are busy; yield it and every process below it."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    temporary = folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "TMPDIR": str(temporary)},
        **how,
    )
    try:
        wait_until(lambda: all(written(folder / name) for name in NAMES))
        below = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
        named = [int(word) for name in NAMES for word in (folder / name).read_text().split()]
        yield process, sorted({*below, *named})
    finally:
        process.kill()
        process.wait()


def assert_all_gone(pids: list[int], folder: Path, shared: set[Path]) -> None:
    began = time.monotonic()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 10)
    assert time.monotonic() - began < 2, "it took too long"
    assert list((folder / "tmp").iterdir()) == []
    assert [one for one in shared_memory() - shared if "hmz" in one.name] == []


def shared_memory() -> set[Path]:
    folder = Path("/dev/shm")
    return set(folder.iterdir()) if folder.exists() else set()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_it_with_busy_and_idle_workers(number: int, tmp_path: Path) -> None:
    shared = shared_memory()
    with started(tmp_path, stderr=subprocess.DEVNULL) as (process, pids):
        assert len(pids) >= 11  # reaper, zygote, five workers, four that the busy ones started
        os.kill(process.pid, number)
        process.wait(10)
        assert_all_gone(pids, tmp_path, shared)


def test_its_whole_group_is_killed(tmp_path: Path) -> None:
    shared = shared_memory()
    with started(tmp_path, stderr=subprocess.DEVNULL, start_new_session=True) as (process, pids):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        assert_all_gone(pids, tmp_path, shared)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_it_and_its_zygote_are_killed_in_the_same_instant(tmp_path: Path) -> None:
    shared = shared_memory()
    with started(tmp_path, stderr=subprocess.DEVNULL) as (process, pids):
        parent = psutil.Process(int(written(tmp_path / "busy0").split()[0])).ppid()
        os.kill(process.pid, signal.SIGSTOP)  # so that it does nothing about the other's end
        os.kill(parent, signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        assert_all_gone(pids, tmp_path, shared)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_it_and_the_reaper_above_its_zygote_are_killed(tmp_path: Path) -> None:
    shared = shared_memory()
    with started(tmp_path, stderr=subprocess.DEVNULL) as (process, pids):
        (reaper,) = (one.pid for one in psutil.Process(process.pid).children())
        os.kill(reaper, signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        assert_all_gone(pids, tmp_path, shared)


def test_its_terminal_closes(tmp_path: Path) -> None:
    shared = shared_memory()
    master, slave = pty.openpty()

    def own_the_terminal() -> None:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with started(
        tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=own_the_terminal,
    ) as (process, pids):
        os.close(slave)
        os.close(master)
        process.wait(10)
        assert_all_gone(pids, tmp_path, shared)


def test_an_interrupt_of_the_group_ends_it_quietly_within_two_seconds(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, os, sys, time\n"
        "from pathlib import Path\n"
        "from hmz_mp import Pool\n"
        "def sleep(path):\n"
        "    Path(path).write_text(f'{os.getpid()}\\n')\n"
        "    time.sleep(60)\n"
        "async def main():\n"
        "    async with Pool(6) as pool:\n"
        "        await asyncio.gather(*[pool.submit(sleep, f'{sys.argv[1]}/{n}')\n"
        "                               for n in range(6)])\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    paths = [tmp_path / str(n) for n in range(6)]
    wait_until(lambda: all(written(path) for path in paths))
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert time.monotonic() - began < 2
    assert said == "interrupted\n"
    assert process.returncode == 1
    assert not any(is_alive(int(path.read_text())) for path in paths)
