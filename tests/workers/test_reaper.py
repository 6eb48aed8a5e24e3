from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hmz_mp_worker import kernel
from tests.helpers import is_alive, run_python, wait_until
from tests.workers.raw import RawZygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")

ENDS = """
import os, sys, time
from hmz_mp_worker.reaper import stand_above
reading, writing = os.pipe()
above = os.getpid()
stand_above(reading, writing)
print(os.getppid() == above, os.getsid(0) == os.getpid(), flush=True)
"""


def start_in_session() -> int:
    return subprocess.Popen(["sleep", "60"], start_new_session=True).pid


def start_orphan() -> int:
    """Start a program in a session of its own whose parent ends at once; return its pid."""
    script = "setsid sleep 60 >/dev/null & echo $!"
    return int(subprocess.check_output(["sh", "-c", script]))


def program_below(zygote: RawZygote) -> list[int]:
    """Have calls start programs; return every process below the one that was started here."""
    for start in (start_in_session, start_orphan):
        assert is_alive(zygote.ready().value(start))
    return kernel.descendants(zygote.process.pid)


def test_the_child_goes_on_and_its_parent_waits(tmp_path: Path) -> None:
    ran = run_python(["-c", ENDS + "time.sleep(0.05); sys.exit(7)"], cwd=tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True True\n", "", 7)
    ran = run_python(["-c", ENDS + "os.kill(os.getpid(), 9)"], cwd=tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True True\n", "", 1)


def test_ends_of_children_may_have_been_ignored(tmp_path: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    ran = run_python(["-c", ignoring + ENDS + "sys.exit(7)"], cwd=tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True True\n", "", 7)


def test_signals_are_the_childs_as_before(tmp_path: Path) -> None:
    source = ENDS + "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    assert run_python(["-c", source], cwd=tmp_path).stdout == "True True\nset()\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_what_a_killed_zygote_leaves_is_ended(number: int) -> None:
    zygote = RawZygote()
    zygote.boot()
    below = program_below(zygote)
    assert len(below) == 5  # the zygote, two workers and what they started
    os.kill(zygote.pid, number)
    zygote.process.wait(10)
    assert not [pid for pid in below if is_alive(pid)]
    zygote.close()


def test_asked_to_end_it_ends_everything() -> None:
    zygote = RawZygote()
    zygote.boot()
    below = program_below(zygote)
    zygote.process.send_signal(signal.SIGINT)  # which, like others of a terminal, it ignores
    zygote.process.terminate()
    assert zygote.process.wait(10) == 1
    assert not [pid for pid in below if is_alive(pid)]
    zygote.close()


def test_a_zygote_whose_reaper_is_killed_goes_on_and_ends_with_its_connection() -> None:
    zygote = RawZygote()
    zygote.boot()
    below = program_below(zygote)
    zygote.process.kill()
    zygote.process.wait()
    assert zygote.ready().value(len, "abc") == 3
    assert all(is_alive(pid) for pid in below)
    zygote.close()
    wait_until(lambda: not [pid for pid in below if is_alive(pid)])


def test_it_holds_little() -> None:
    zygote = RawZygote()
    try:
        zygote.boot()
        reaper = psutil.Process(zygote.process.pid)
        names = {os.readlink(f"/proc/{reaper.pid}/fd/{fd.name}") for fd in _descriptors(reaper.pid)}
        assert not [name for name in names if name.startswith("socket")]
        assert reaper.memory_info().rss < 30 << 20
        assert reaper.num_threads() == 1
    finally:
        zygote.close()


def _descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())
