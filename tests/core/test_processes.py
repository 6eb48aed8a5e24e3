from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from hmz_mp.core.processes import is_alive, own_start


def test_this_process_is_there() -> None:
    assert is_alive(os.getpid(), own_start())
    assert is_alive(os.getpid(), own_start() + 1)  # the clock was corrected
    assert not is_alive(os.getpid(), own_start() - 60)  # that was another one


def test_a_process_that_ended_is_not() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    started = time.time()
    process.wait()
    assert not is_alive(process.pid, started)


def test_one_that_nobody_has_waited_for_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        started = psutil.Process(process.pid).create_time()
        assert process.stdout is not None
        process.stdout.read()  # its end
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process.pid, started)


def test_what_may_not_be_looked_at_is_taken_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> str:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "status", refuse)
    assert is_alive(os.getpid(), 0.0)
