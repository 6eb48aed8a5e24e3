from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hmz_mp_worker import kernel, wire
from hmz_mp_worker.page import read_page, running_ticket
from tests.helpers import is_alive, wait_until, written
from tests.workers.raw import RawWorker, RawZygote, error_of


def spin(path: str) -> None:
    import os
    import pathlib
    import time

    pathlib.Path(path).write_text(f"{os.getpid()}\n")
    while True:
        time.sleep(60)


def ignore_term_and_spin(path: str) -> None:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spin(path)


def spin_with_child(path: str) -> None:
    """Spin, with a child in a session of its own, which ignores TERM."""
    import pathlib
    import subprocess
    import sys
    import time

    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('on', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    pathlib.Path(path).write_text(f"{child.pid}\n")
    time.sleep(60)


def start_and_leave() -> int:
    """Start a child in this worker's process group, and leave it running."""
    import subprocess

    return subprocess.Popen(["sleep", "60"]).pid


def exited(zygote: RawZygote, worker: RawWorker) -> int:
    """Wait for the report of a worker's end; return its status as ``subprocess`` gives it."""
    message = zygote.receive()
    assert isinstance(message, wire.Exited), message
    assert message.worker == worker.number
    return os.waitstatus_to_exitcode(message.status)


def started(path: Path) -> int:
    wait_until(lambda: written(path))
    return int(written(path))


@pytest.mark.parametrize("status", [0, 3])
def test_it_reports_how_a_worker_exits(zygote: RawZygote, worker: RawWorker, status: int) -> None:
    worker.call(os._exit, status)
    assert exited(zygote, worker) == status
    assert not is_alive(worker.pid)


def test_it_reports_a_signal(zygote: RawZygote, worker: RawWorker) -> None:
    worker.call(os.kill, worker.pid, signal.SIGSEGV)
    assert exited(zygote, worker) == -signal.SIGSEGV


def test_a_retired_worker_exits_in_order(zygote: RawZygote, worker: RawWorker) -> None:
    worker.send(wire.Retire())
    assert exited(zygote, worker) == 0
    assert worker.at_end()


def test_a_worker_whose_connection_ends_exits(zygote: RawZygote, worker: RawWorker) -> None:
    worker.sock.close()
    assert exited(zygote, worker) == 0


def test_a_worker_never_welcomed_exits_with_its_connection(zygote: RawZygote) -> None:
    worker = zygote.fork()
    worker.sock.close()
    assert exited(zygote, worker) == 0


def test_kill_by_term(zygote: RawZygote, worker: RawWorker, tmp_path: Path) -> None:
    worker.call(spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, 0, 10.0))
    assert exited(zygote, worker) == -signal.SIGTERM


def test_kill_at_once(zygote: RawZygote, worker: RawWorker, tmp_path: Path) -> None:
    worker.call(spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, 0, 0.0))
    assert exited(zygote, worker) == -signal.SIGKILL


def test_what_ignores_term_is_killed_after_the_grace(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    worker.call(ignore_term_and_spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, 0, 0.05))
    assert exited(zygote, worker) == -signal.SIGKILL


def test_a_kill_reaches_children_that_left_the_group(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    worker.call(spin_with_child, str(tmp_path / "child"))
    child = started(tmp_path / "child")
    zygote.send(wire.Kill(worker.number, 0, 0.2))
    assert exited(zygote, worker) < 0
    wait_until(lambda: not is_alive(child))


def test_what_a_worker_left_in_its_group_goes_with_it(zygote: RawZygote, worker: RawWorker) -> None:
    child = worker.value(start_and_leave)
    assert is_alive(child)
    worker.send(wire.Retire())
    assert exited(zygote, worker) == 0
    wait_until(lambda: not is_alive(child))


def test_a_conditional_kill_of_what_runs(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    ticket = worker.call(spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, ticket, 1.0))
    assert exited(zygote, worker) == -signal.SIGTERM
    assert read_page(worker.page).running == ticket


def test_a_conditional_kill_of_what_does_not_run(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    ticket = worker.call(spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, ticket + 1, 1.0))
    assert zygote.receive() == wire.Missed(worker.number, ticket + 1)
    assert is_alive(worker.pid)
    assert running_ticket(worker.page) == ticket


def test_a_conditional_kill_leaves_a_worker_that_goes_on(
    zygote: RawZygote, worker: RawWorker
) -> None:
    assert worker.value(len, "abc") == 3
    zygote.send(wire.Kill(worker.number, 1, 1.0))
    assert zygote.receive() == wire.Missed(worker.number, 1)
    assert worker.value(len, "ab") == 2


def end_when_asked(path: str) -> None:
    """Start a child that ignores TERM, and end by an exception once TERM comes."""
    import signal

    def leave(*_: object) -> None:
        raise InterruptedError

    signal.signal(signal.SIGTERM, leave)
    spin_with_child(path)


def test_what_took_term_and_ended_is_not_killed_for(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    """Nor is the call that came after it, though what it started is."""
    ticket = worker.call(end_when_asked, str(tmp_path / "child"))
    child = started(tmp_path / "child")
    zygote.send(wire.Kill(worker.number, ticket, 0.3))
    assert isinstance(error_of(worker.answer()), InterruptedError)
    after = worker.call(spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    assert zygote.receive() == wire.Missed(worker.number, ticket)
    wait_until(lambda: not is_alive(child))
    assert running_ticket(worker.page) == after
    zygote.send(wire.Kill(worker.number, after, 0.3))
    assert exited(zygote, worker) == -signal.SIGTERM


def test_what_takes_term_and_goes_on_is_killed(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    ticket = worker.call(ignore_term_and_spin, str(tmp_path / "on"))
    started(tmp_path / "on")
    zygote.send(wire.Kill(worker.number, ticket, 0.05))
    assert exited(zygote, worker) == -signal.SIGKILL


def test_a_kill_of_a_worker_that_is_gone(zygote: RawZygote, worker: RawWorker) -> None:
    worker.call(os._exit, 0)
    assert exited(zygote, worker) == 0
    zygote.send(wire.Kill(worker.number, 0, 1.0))
    zygote.send(wire.Kill(77, 5, 1.0))
    assert zygote.ready().value(len, "a") == 1


def test_a_worker_is_no_parent_of_the_next(zygote: RawZygote) -> None:
    workers = [zygote.ready() for _ in range(3)]
    parents = [worker.value(os.getppid) for worker in workers]
    assert parents == [zygote.pid] * 3
    assert [worker.value(os.getpgrp) for worker in workers] == [one.pid for one in workers]


def open_descriptors() -> list[str]:
    import os

    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return sorted(one.split(":")[0] for one in found)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_worker_holds_nothing_of_the_zygote_or_of_others(zygote: RawZygote) -> None:
    held = [zygote.ready().value(open_descriptors) for _ in range(3)]
    assert held[0] == ["/dev/null", *["/memfd"] * 5, "socket"]
    assert held[1] == held[2] == held[0]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_orphans_are_reaped(zygote: RawZygote, worker: RawWorker) -> None:
    script = "sh -c 'echo $$; exec sleep 0' &"  # the shell in between ends, and is not waited for
    orphan = int(worker.value(subprocess.check_output, ["sh", "-c", script]))
    wait_until(lambda: orphan not in kernel.descendants(zygote.pid))


def test_preloaded_modules_are_there_after_the_fork() -> None:
    zygote = RawZygote()
    try:
        zygote.boot(preload=["colorsys"])
        code = "'colorsys' in __import__('sys').modules"
        assert zygote.ready().value(eval, code)
        assert not zygote.workers[0].value(eval, "'chunk' in __import__('sys').modules")
        zygote.send(wire.Preload(["wave"]))
        assert zygote.ready().value(eval, "'wave' in __import__('sys').modules")
    finally:
        assert zygote.close() == ""


@pytest.mark.parametrize("source", ["1 / 0", "raise SystemExit(4)", "raise KeyboardInterrupt"])
def test_a_preload_that_raises(tmp_path: Path, source: str) -> None:
    (tmp_path / "broken_module.py").write_text(source)
    zygote = RawZygote()
    try:
        failed = zygote.boot(sys_path=[str(tmp_path), *sys.path], preload=["broken_module"])
        assert isinstance(failed, wire.BootFailed)
        assert failed.text.startswith("preloading broken_module raised ")
    finally:
        assert zygote.close() == ""


def test_another_version() -> None:
    zygote = RawZygote()
    try:
        failed = zygote.boot(version=wire.VERSION + 1)
        assert isinstance(failed, wire.BootFailed)
        assert f"version {wire.VERSION + 1}" in failed.text
    finally:
        assert zygote.close() == ""


def test_niceness() -> None:
    zygote = RawZygote()
    try:
        zygote.boot(niceness=3)
        assert zygote.ready().value(os.nice, 0) == os.nice(0) + 3
    finally:
        assert zygote.close() == ""


def test_what_is_no_message_ends_it_and_its_workers() -> None:
    zygote = RawZygote()
    zygote.boot()
    worker = zygote.ready()
    zygote.sock.sendall(b"\x03\x00\x00\x00\x00\x00\x00\x00\x93\x63\x01")
    assert zygote.process.wait(20) == 1
    wait_until(lambda: not is_alive(worker.pid))
    assert "ValidationError" in zygote.close()


def test_it_leaves_nothing_when_its_connection_ends(tmp_path: Path) -> None:
    zygote = RawZygote()
    zygote.boot()
    workers = [zygote.ready() for _ in range(3)]
    workers[0].call(spin_with_child, str(tmp_path / "child"))
    workers[1].call(ignore_term_and_spin, str(tmp_path / "on"))
    pids = [started(tmp_path / "child"), started(tmp_path / "on")]
    assert zygote.close() == ""
    assert not [pid for pid in (*pids, *(one.pid for one in workers)) if is_alive(pid)]


POOL_SCRIPT = """
import os, subprocess, sys
from pathlib import Path
import anyio
from hmz_mp import Pool

def busy(name):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    Path(name).write_text(f"{os.getpid()} {child.pid}\\n")
    while True:
        pass

async def waits(name):
    import asyncio
    child = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    Path(name).write_text(f"{os.getpid()} {child.pid}\\n")
    await asyncio.sleep(300)

async def main():
    async with Pool(2) as pool:
        turns = [pool.submit(busy, "busy1"), pool.submit(busy, "busy2")]
        turns.append(pool.submit(waits, "waits"))
        await turns[0]

anyio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_coordinator_that_vanishes_leaves_nothing(tmp_path: Path, number: int) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(POOL_SCRIPT))
    with subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as coordinator:
        names = ("busy1", "busy2", "waits")
        wait_until(lambda: all(written(tmp_path / name) for name in names))
        pids = [int(pid) for name in names for pid in written(tmp_path / name).split()]
        pids += kernel.descendants(coordinator.pid)
        coordinator.send_signal(number)
        assert coordinator.wait(20) != 0
    wait_until(lambda: not [pid for pid in pids if is_alive(pid)])


def leave_marked(path: str, mark: str) -> None:
    """Start something marked in a session of its own, whose parent ends."""
    import os
    import subprocess
    import sys

    code = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
        "os.execlp('sleep', 'sleep', '1000')\n"
    )
    worker = str(os.getpid()) if mark == "own" else mark
    env = {**os.environ, "HMZ_MP_PROGRAM": f"{worker}.1"}
    subprocess.run([sys.executable, "-ISc", code, path], check=True, env=env)


def test_what_a_lost_workers_programs_left_goes_with_it(
    zygote: RawZygote, worker: RawWorker, tmp_path: Path
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    worker.value(leave_marked, str(own), "own")
    worker.value(leave_marked, str(other), "1")
    wait_until(lambda: written(own) and written(other))
    os.kill(worker.pid, signal.SIGKILL)
    assert zygote.receive() == wire.Exited(worker.number, signal.SIGKILL)
    wait_until(lambda: not is_alive(int(written(own))))
    assert is_alive(int(written(other)))
    os.kill(int(written(other)), signal.SIGKILL)


def start_between(path: str) -> None:
    """Start something marked below something that is not, which ends when it is let go."""
    import os
    import subprocess
    import sys

    code = (
        "import os, subprocess, sys\n"
        "env = {**os.environ, 'HMZ_MP_PROGRAM': sys.argv[2] + '.1'}\n"
        "marked = subprocess.Popen(['sleep', '1000'], start_new_session=True, env=env)\n"
        "open(sys.argv[1], 'w').write(f'{marked.pid}\\n')\n"
        "open(sys.argv[1] + '.go').read()\n"
        "os._exit(0)\n"
    )
    words = [sys.executable, "-ISc", code, path, str(os.getpid())]
    subprocess.Popen(words, start_new_session=True)


async def on_a_host(path: str) -> None:
    start_between(path)


def test_what_comes_to_light_later_goes_too(
    zygote: RawZygote, host: RawWorker, tmp_path: Path
) -> None:
    path = tmp_path / "marked"
    os.mkfifo(f"{path}.go")
    host.value(on_a_host, str(path))
    wait_until(lambda: written(path))
    os.kill(host.pid, signal.SIGKILL)
    assert zygote.receive() == wire.Exited(host.number, signal.SIGKILL)
    assert is_alive(int(written(path)))  # its parent is alive, and nobody's program
    Path(f"{path}.go").write_text("go")
    wait_until(lambda: not is_alive(int(written(path))))
