from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hmz_mp_worker import kernel
from tests.helpers import is_alive, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is asked of Linux")

SLEEP = "import time; time.sleep(60)"
# Starts a child in a session of its own, says its pid, and sleeps.
PARENT = f"""
import subprocess, sys, time
from hmz_mp_worker import kernel
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@contextmanager
def python(source: str, *, start_new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_children_and_descendants() -> None:
    with python(PARENT) as parent:
        grandchild = said_pid(parent)
        assert kernel.children(parent.pid) == [grandchild]
        assert parent.pid in kernel.children(os.getpid())
        mine = kernel.descendants(os.getpid())
        assert mine.index(parent.pid) < mine.index(grandchild)
        os.kill(grandchild, signal.SIGKILL)


def test_of_a_process_that_is_gone() -> None:
    with python("") as process:
        process.wait()
    assert kernel.children(process.pid) == []
    assert kernel.descendants(process.pid) == []
    assert kernel.open_process(process.pid) is None


def test_a_process_descriptor_is_readable_at_the_end() -> None:
    with python("input()") as process:
        fd = kernel.open_process(process.pid)
        assert fd is not None
        try:
            assert select.select([fd], [], [], 0)[0] == []
            process.kill()
            assert select.select([fd], [], [], 10)[0] == [fd]
        finally:
            os.close(fd)


def test_signal_all_reaches_groups_and_passes_over_what_is_gone() -> None:
    with python("") as gone:
        gone.wait()
    with python(SLEEP, start_new_session=True) as leader, python(SLEEP) as other:
        kernel.signal_all([gone.pid, other.pid], [gone.pid, leader.pid], signal.SIGTERM)
        assert leader.wait(10) == other.wait(10) == -signal.SIGTERM


def test_die_with_parent() -> None:
    source = """
import os, time
from hmz_mp_worker import kernel
parent = os.getpid()
if os.fork() == 0:
    kernel.die_with_parent(parent)
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(60)
"""
    with python(source) as parent:
        child = said_pid(parent)
        parent.kill()
        wait_until(lambda: not is_alive(child))


def test_die_with_a_parent_that_is_gone_already() -> None:
    source = "from hmz_mp_worker import kernel; kernel.die_with_parent(1 << 22); print('lived')"
    with python(source) as process:
        assert process.communicate(timeout=10)[0] == ""
        assert process.returncode == 1


def test_adopt_orphans() -> None:
    source = """
import os, subprocess
from hmz_mp_worker import kernel
kernel.adopt_orphans()
leaves_one = ["sh", "-c", "sleep 60 >/dev/null & echo $!"]
orphan = int(subprocess.run(leaves_one, stdout=subprocess.PIPE).stdout)
print(orphan in kernel.children(os.getpid()), flush=True)
os.kill(orphan, 9)
"""
    with python(source) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert process.wait(10) == 0


def test_a_mark_in_the_environment_of_what_was_started() -> None:
    source = PARENT.replace("start_new_session=True", "start_new_session=True, env=env").replace(
        "child =", f"import os; env = {{**os.environ, '{kernel.MARK}': '77.1'}}\nchild ="
    )
    with python(source) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: kernel.bears(child, f"{kernel.MARK}=77.1".encode()))
        assert not kernel.bears(child, f"{kernel.MARK}=77".encode())
        assert not kernel.bears(parent.pid, f"{kernel.MARK}=77.1".encode())
        assert kernel.marked_by([5, 77], [parent.pid, child, 2**22 + 1]) == [child]
        assert kernel.marked_by([7], [parent.pid, child]) == []
        assert kernel.marked_by([], [parent.pid, child]) == []
        assert kernel.is_running(child)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: not kernel.is_running(child))
        assert not kernel.bears(2**22 + 1, b"x")
