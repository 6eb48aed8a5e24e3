"""Executors in programs of their own: how they are run, how they end, how they fork."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import is_alive, run_python, run_script, wait_until, written

BOUND = 20.0
DEFINES = """
from hmz_mp.futures import ProcessExecutor

OFFSET = 10

class Point:
    def __init__(self, x):
        self.x = x

def move(point):
    return Point(point.x + OFFSET)

executor = ProcessExecutor(1)
moved = executor.submit(move, Point(1)).result(20)
print(type(moved) is Point, moved.x, list(executor.map(lambda n: n * OFFSET, [1, 2])))
"""
ANSWER = "True 11 [10, 20]\n"


# Where functions may be defined.


def test_functions_of_a_script(tmp_path: Path) -> None:
    ran = run_script(tmp_path, DEFINES)
    assert (ran.stdout, ran.stderr, ran.returncode) == (ANSWER, "", 0)


def test_functions_of_a_command(tmp_path: Path) -> None:
    ran = run_python(["-c", DEFINES], cwd=tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == (ANSWER, "", 0)


def test_functions_on_standard_input(tmp_path: Path) -> None:
    ran = run_python(["-"], cwd=tmp_path, stdin=DEFINES)
    assert (ran.stdout, ran.stderr, ran.returncode) == (ANSWER, "", 0)


def test_functions_of_a_prompt(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHON_BASIC_REPL": "1", "PYTHON_HISTORY": os.devnull, "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-q"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path,
        env=env, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = _until(ours, b">>> ")
        for block in DEFINES.split("\n\n"):  # a blank line ends a block at a prompt
            os.write(ours, block.strip("\n").encode() + b"\n\n")
        seen += _until(ours, ANSWER.strip().encode())
        os.write(ours, b"exit()\n")
        assert process.wait(BOUND) == 0, seen
        assert b"Error" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until(fd: int, text: bytes) -> bytes:
    """Read a terminal until ``text`` has come."""
    seen = b""
    deadline = time.monotonic() + BOUND
    while text not in seen:
        ready, _, _ = select.select([fd], [], [], deadline - time.monotonic())
        assert ready, f"waited in vain for {text!r}: {seen!r}"
        seen += os.read(fd, 4096)
    return seen


# Ends of programs.


def test_a_program_ends_when_its_calls_have(tmp_path: Path) -> None:
    source = """
import os, sys, time
from hmz_mp.futures import ProcessExecutor
executors = [ProcessExecutor(2) for _ in range(2)]
def done(future):
    sys.stdout.write("done\\n")  # whole, as two threads come here
for executor in executors:
    for n in range(6):
        executor.submit(time.sleep, 0.05).add_done_callback(done)
    executor.submit(print, "printed there")
executors[0].shutdown(wait=False)
"""
    ran = run_script(tmp_path, source)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert sorted(ran.stdout.splitlines()) == ["done"] * 12 + ["printed there"] * 2


def test_a_program_that_fails_ends_when_its_calls_have(tmp_path: Path) -> None:
    source = """
import time
from hmz_mp.futures import ProcessExecutor
executor = ProcessExecutor(1)
executor.submit(time.sleep, 0.1).add_done_callback(lambda future: print("done"))
raise ValueError("its own")
"""
    ran = run_script(tmp_path, source)
    assert (ran.stdout, ran.returncode) == ("done\n", 1)
    assert ran.stderr.rstrip().endswith("ValueError: its own")


SLEEPS = """
import os, sys, time
from hmz_mp.futures import ProcessExecutor

def sleep(seconds):
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(seconds)
"""
WITH = """
with ProcessExecutor(3) as executor:
    futures = [executor.submit(sleep, 300) for _ in range(6)]
    futures[0].result()
"""
WITHOUT = """
executor = ProcessExecutor(3)
futures = [executor.submit(sleep, 300) for _ in range(6)]
futures[0].result()
"""
SHUTTING = """
executor = ProcessExecutor(3)
futures = [executor.submit(sleep, 300) for _ in range(6)]
executor.shutdown()
"""


@pytest.mark.parametrize("use", [WITH, WITHOUT, SHUTTING], ids=["with", "without", "shutting"])
def test_one_interrupt_ends_a_program_and_its_workers(tmp_path: Path, use: str) -> None:
    process = _start(tmp_path, SLEEPS + use)
    pids = _pids(tmp_path, 3)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=BOUND)
    assert time.monotonic() - began < 3
    assert process.returncode == -signal.SIGINT, said
    assert said.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: not any(map(is_alive, pids)))


def test_an_interrupt_at_exit_ends_what_runs(tmp_path: Path) -> None:
    process = _start(tmp_path, SLEEPS + WITHOUT.replace("futures[0].result()", ""))
    pids = _pids(tmp_path, 3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=BOUND)
    assert said == ""
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_killed_leaves_no_worker(tmp_path: Path, number: int) -> None:
    process = _start(tmp_path, SLEEPS + WITH)
    pids = _pids(tmp_path, 3)
    process.send_signal(number)
    process.communicate(timeout=BOUND)
    wait_until(lambda: not any(map(is_alive, pids)), 3)


def _start(tmp_path: Path, source: str) -> subprocess.Popen[str]:
    (tmp_path / "script.py").write_text(source)
    return subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _pids(tmp_path: Path, count: int) -> list[int]:
    """Return the processes of the calls that run, once there are so many."""
    path = tmp_path / "pids"
    wait_until(lambda: len(written(path).split()) >= count)
    return [int(pid) for pid in written(path).split()]


# Forks.

FORKS = """
import os, sys, time
from concurrent.futures import as_completed, wait
from hmz_mp.futures import ProcessExecutor

executor = ProcessExecutor(2)
assert executor.submit(abs, -1).result(20) == 1
pending = [executor.submit(time.sleep, 0.5) for _ in range(4)]
cancelled = executor.submit(time.sleep, 0.5)
cancelled.cancel()

def tried(function, *args):
    try:
        print(function.__name__, function(*args), flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)

child = os.fork()
if child == 0:
    tried(executor.submit, abs, -1)
    tried(pending[0].result)
    print(len(wait(pending).done), len(list(as_completed(pending))), flush=True)
    print(pending[0].cancel(), wait([cancelled], 20).not_done, flush=True)
    executor.shutdown()
    with ProcessExecutor(1) as own:
        tried(own.submit(abs, -7).result)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print([future.result(20) for future in pending], executor.submit(abs, -2).result(20))
"""
LOST = "PoolClosed this executor belongs to the process that this one was forked from"


def test_a_fork_gets_a_clear_error_and_may_have_its_own(tmp_path: Path) -> None:
    ran = run_python(["-W", "ignore::DeprecationWarning", "-c", FORKS], cwd=tmp_path)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert ran.stdout.splitlines() == [
        LOST, LOST, "4 4", "False set()", "result 7", "[None, None, None, None] 2",
    ]  # fmt: skip


# Loops of others.

LOOPS = """
import asyncio, pathlib, time
from hmz_mp.futures import ProcessExecutor

def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.002)
    return path

executor = ProcessExecutor(1)

async def leave():
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(executor, abs, -1) == 1
    loop.run_in_executor(executor, wait_for, "first")   # lands after the loop has gone
    queued = loop.run_in_executor(executor, wait_for, "second")
    await asyncio.sleep(0)
    queued.cancel()

asyncio.run(leave())
late = executor.submit(abs, -2)
pathlib.Path("first").touch()
print(late.result(20))

"""


def test_an_answer_that_lands_after_the_loop_has_gone(tmp_path: Path) -> None:
    ran = run_script(tmp_path, LOOPS)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("2\n", "", 0)


MANAGERS = """
from multiprocessing import get_context
from hmz_mp.futures import ProcessExecutor

def put(queue, value):
    queue.put(value)

if __name__ == "__main__":  # which multiprocessing needs, not this executor
    with ProcessExecutor(1) as executor:
        assert executor.submit(abs, -1).result(20) == 1
        with get_context("spawn").Manager() as manager:
            queue = manager.Queue()
            executor.submit(put, queue, 7).result(20)
            print(queue.get(timeout=20))
"""


def test_queues_of_a_manager_are_reached_by_calls(tmp_path: Path) -> None:
    ran = run_script(tmp_path, MANAGERS)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("7\n", "", 0)
