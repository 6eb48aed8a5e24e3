"""A worker that ends takes the turn it ran with it, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hmz_mp import Pool
from hmz_mp.errors import InitializerFailed, WorkerDied, WorkerStartFailed
from tests.faults.shipped import SLEEPER, die_by, double, pid, say_and_hang
from tests.helpers import await_until, is_alive, written
from tests.waiting import is_gone

pytestmark = pytest.mark.anyio

ENDINGS = {
    "SIGKILL": (lambda: die_by(signal.SIGKILL), ("signal", signal.SIGKILL)),
    "SIGSEGV": (lambda: die_by(signal.SIGSEGV), ("signal", signal.SIGSEGV)),
    "_exit": (lambda: os._exit(3), ("exitcode", 3)),
    "abort": (os.abort, ("signal", signal.SIGABRT)),
    "exec": (lambda: os.execvp("true", ["true"]), ("exitcode", 0)),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_with_a_hundred_queued_and_ten_shipped(how: str) -> None:
    end, (attribute, value) = ENDINGS[how]
    async with Pool(1) as pool:
        before = await asyncio.gather(*[pool.submit(double, n) for n in range(200)])
        assert before == [2 * n for n in range(200)]  # known to be short: shipped in dozens
        turns = [pool.submit(double, n) for n in range(5)]
        guilty = pool.submit(end)
        turns += [pool.submit(double, n) for n in range(5, 110)]
        assert await asyncio.gather(*turns) == [2 * n for n in range(110)]
        with pytest.raises(WorkerDied) as caught:
            await guilty
        assert getattr(caught.value, attribute) == value
        assert pool.statistics().failed == 1


async def test_a_segfault_for_real_says_where() -> None:
    def read_nothing() -> None:
        import ctypes
        import faulthandler

        faulthandler.enable()
        ctypes.string_at(0)

    async with Pool(1) as pool:
        with pytest.raises(WorkerDied) as caught:
            await pool.run(read_nothing)
        assert caught.value.signal == signal.SIGSEGV
        assert "Segmentation fault" in caught.value.stderr_tail
        assert await pool.run(double, 2) == 4


async def test_the_worker_is_killed_from_outside_while_it_runs(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        path = tmp_path / "pid"
        turn = pool.submit(say_and_hang, str(path))
        await await_until(lambda: written(path))
        os.kill(int(path.read_text()), signal.SIGKILL)
        assert await pool.run(double, 2) == 4
        with pytest.raises(WorkerDied) as caught:
            await turn
        assert caught.value.pid == int(path.read_text())


async def test_an_idle_worker_that_is_killed_is_nobodys_fault() -> None:
    async with Pool(1) as pool:
        for _ in range(5):
            worker = await pool.run(pid)
            os.kill(worker, signal.SIGKILL)
            assert await pool.run(pid) != worker
        assert pool.statistics().failed == 0


async def test_a_turn_that_ends_its_worker_is_tried_again_only_if_it_asked(tmp_path: Path) -> None:
    def end_first(path: str) -> int:
        with Path(path).open("a") as file:
            file.write("x")
        if len(Path(path).read_text()) < 3:
            os._exit(3)
        return len(Path(path).read_text())

    async with Pool(1) as pool:
        with pytest.raises(WorkerDied):
            await pool.run(end_first, str(tmp_path / "once"))
        assert len((tmp_path / "once").read_text()) == 1
        assert await pool.options(retries=2).run(end_first, str(tmp_path / "thrice")) == 3


async def test_a_grandchild_that_holds_the_workers_descriptors_hides_nothing() -> None:
    """The end of a worker is its own exit, not the end of its connection."""

    def leave_heir() -> None:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os._exit(3)

    async with Pool(1) as pool:
        began = time.monotonic()
        with pytest.raises(WorkerDied) as caught:
            await pool.run(leave_heir)
        assert caught.value.exitcode == 3
        assert time.monotonic() - began < 5


async def test_a_forked_child_that_comes_back_into_our_code_speaks_for_nobody() -> None:
    """A call that forks and lets the child return: two processes would answer one call."""

    def fork_and_return() -> tuple[int, int]:
        return os.fork(), os.getpid()

    async with Pool(1) as pool:
        for _ in range(20):
            child, worker = await pool.run(fork_and_return)
            assert child > 0
            assert await pool.run(double, 4) == 8
            await await_until(partial(is_gone, child))
            assert await pool.run(pid) == worker


async def test_a_forked_child_that_exits_runs_none_of_the_workers_ending() -> None:
    def fork_and_exit() -> int:
        child = os.fork()
        if not child:
            sys.exit(0)
        return os.waitpid(child, 0)[1]

    async with Pool(1) as pool:
        for _ in range(10):
            assert await pool.run(fork_and_exit) == 0
            assert await pool.run(double, 4) == 8


async def test_a_child_that_sleeps_on_and_exits_itself_holds_nobody_up() -> None:
    def leave_sleeper() -> int:
        return subprocess.Popen(SLEEPER).pid

    began = time.monotonic()
    async with Pool(1) as pool:
        child = await pool.run(leave_sleeper)
        assert await pool.run(double, 4) == 8
    assert time.monotonic() - began < 8
    assert not is_alive(child)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
async def test_what_calls_started_goes_with_the_process_that_forks_workers(
    tmp_path: Path,
) -> None:
    def start(session: bool) -> tuple[int, int]:
        return os.getppid(), subprocess.Popen(SLEEPER, start_new_session=session).pid

    async with Pool(2) as pool:
        running = pool.submit(say_and_hang, str(tmp_path / "pid"))
        await await_until(lambda: written(tmp_path / "pid"))
        zygote, child = await pool.run(start, False)
        _, daemon = await pool.run(start, True)
        os.kill(zygote, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            await running
        await await_until(lambda: not is_alive(child) and not is_alive(daemon))
        assert await pool.run(double, 2) == 4
        assert pool.statistics().failed == 1


async def test_an_async_call_that_ends_the_process_it_shares_ends_what_runs_there() -> None:
    async def end() -> None:
        print("about to end")
        os._exit(3)

    async def wait() -> int:
        await asyncio.sleep(60)
        return 0

    async def answer() -> int:
        return os.getpid()

    async with Pool(2) as pool:
        before = await pool.run(answer)
        others = [pool.submit(wait) for _ in range(5)]
        calls = [pool.submit(double, n) for n in range(20)]
        ended = await asyncio.gather(pool.submit(end), *others, return_exceptions=True)
        for error in ended:
            assert isinstance(error, WorkerDied)
            assert (error.pid, error.exitcode) == (before, 3)
        assert await asyncio.gather(*calls) == [2 * n for n in range(20)]
        assert await pool.run(answer) != before


# Workers that cannot start.


def _raise() -> None:
    raise OSError("no such licence")


def _exit() -> None:
    os.write(2, b"nothing to do here\n")
    os._exit(4)


@pytest.mark.parametrize("initializer", [_raise, _exit])
async def test_an_initializer_that_fails_fails_every_turn_once(
    initializer: Callable[[], None],
) -> None:
    async with Pool(2, initializer=initializer) as pool:
        turns = [pool.submit(double, n) for n in range(50)]
        ended = await asyncio.gather(*turns, return_exceptions=True)
        assert all(isinstance(error, WorkerStartFailed) for error in ended)
        with pytest.raises(WorkerStartFailed):
            await pool.run(double, 1)
        text = str(ended[0])
        assert "no such licence" in text or "nothing to do here" in text


def _note_and_wait(folder: str) -> None:
    (Path(folder) / f"begun-{os.getpid()}").write_text(f"{os.getppid()}\n")
    while not (Path(folder) / "go").exists():
        time.sleep(0.002)


async def test_the_process_that_forks_workers_is_killed_while_many_start(tmp_path: Path) -> None:
    """That is one failure, not one for each of them."""
    async with Pool(4, initializer=_note_and_wait, initargs=(str(tmp_path),)) as pool:
        turns = [pool.submit(double, n) for n in range(20)]
        await await_until(lambda: len([*filter(written, tmp_path.iterdir())]) == 4)
        os.kill(int(written(next(tmp_path.iterdir()))), signal.SIGKILL)
        workers = [int(path.name.removeprefix("begun-")) for path in tmp_path.iterdir()]
        await await_until(lambda: not any(map(is_alive, workers[:4])))
        (tmp_path / "go").touch()
        assert await asyncio.gather(*turns) == [2 * n for n in range(20)]


async def test_an_initializer_that_hangs_is_given_up() -> None:
    async with Pool(2, initializer=time.sleep, initargs=(3600,), start_timeout=0.5) as pool:
        began = time.monotonic()
        with pytest.raises(InitializerFailed, match=r"0\.5 s"):
            await pool.run(double, 1)
        assert time.monotonic() - began < 10


async def test_leaving_while_an_initializer_hangs_is_bounded() -> None:
    async def leave() -> None:
        async with Pool(2, initializer=time.sleep, initargs=(3600,)) as pool:
            pool.submit(double, 1)
            await asyncio.sleep(0)
            raise KeyError

    began = time.monotonic()
    with pytest.raises(KeyError):
        await leave()
    assert time.monotonic() - began < 8


async def test_a_module_that_hangs_when_it_is_preloaded_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faults_hangs.py").write_text("import time; time.sleep(3600)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    began = time.monotonic()
    async with Pool(1, preload=["faults_hangs"], start_timeout=0.3) as pool:
        for _ in range(2):
            with pytest.raises(InitializerFailed, match=r"0\.3 s"):
                await pool.run(double, 1)
    assert time.monotonic() - began < 4


async def test_leaving_at_once_does_not_wait_for_what_boots() -> None:
    for _ in range(5):
        async with Pool(1):
            pass
