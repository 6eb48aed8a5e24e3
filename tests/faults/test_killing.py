"""Ending a call ends its process and all that it started, in bounded time, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.core import stopping
from hmz_mp.engines import local
from hmz_mp.engines import zygote as engine_zygote
from hmz_mp.errors import TurnTimeout, WorkerDied
from tests.faults.shipped import SLEEPER, double, hang_ignoring, say_and_hang, start_and_hang
from tests.helpers import await_until, is_alive, written

pytestmark = pytest.mark.anyio

BOUND = 6.0  # seconds that any ending may take here, on a busy machine


def block_in_c(path: str) -> None:
    """Wait in C for what never comes, with SIGTERM ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).write_text(f"{os.getpid()}\n")
    import ctypes

    ctypes.CDLL(None).pause()
    ctypes.CDLL(None).sleep(100)


def hold_the_gil(path: str) -> None:
    """Hold the GIL in C for a long time, so that no thread of Python's runs."""
    import re

    Path(path).write_text(f"{os.getpid()}\n")
    re.match(r"(a+)+$", "a" * 40 + "b")


def leave_a_thread(path: str) -> None:
    """Hang in a thread that is not a daemon, beside the call."""
    threading.Thread(target=time.sleep, args=(30,)).start()
    say_and_hang(path)


def swallow_everything(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue


def stop_itself(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGSTOP)


def _is_loaded() -> bool:
    return True


STUBBORN: list[Callable[[str], None]] = [
    say_and_hang,
    hang_ignoring,
    block_in_c,
    hold_the_gil,
    leave_a_thread,
    swallow_everything,
    stop_itself,
]


@pytest.mark.parametrize("call", STUBBORN, ids=lambda one: one.__name__)
async def test_a_cancelled_call_ends_whatever_it_does(
    call: Callable[[str], None], tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    async with Pool(1) as pool:
        turn = pool.submit(call, str(path))
        await await_until(lambda: written(path))
        behind = pool.submit(double, 2)
        began = time.monotonic()
        assert turn.cancel()
        assert await behind == 4
        assert time.monotonic() - began < BOUND
        assert not is_alive(int(path.read_text()))


@pytest.mark.parametrize("call", STUBBORN, ids=lambda one: one.__name__)
async def test_a_call_past_its_timeout_ends_whatever_it_does(
    call: Callable[[str], None], tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    async with Pool(1) as pool:
        await pool.run(_is_loaded)  # importing this module is part of the first call's time
        began = time.monotonic()
        with pytest.raises(TurnTimeout):
            await pool.options(timeout=0.3).run(call, str(path))
        assert time.monotonic() - began < BOUND
        assert not is_alive(int(path.read_text()))
        assert await pool.run(double, 2) == 4


@pytest.mark.parametrize("call", STUBBORN, ids=lambda one: one.__name__)
async def test_leaving_the_pool_by_an_error_ends_whatever_runs(
    call: Callable[[str], None], tmp_path: Path
) -> None:
    path = tmp_path / "pid"

    async def leave() -> float:
        async with Pool(2) as pool:
            pool.submit(call, str(path))
            await await_until(lambda: written(path))
            began.append(time.monotonic())
            raise KeyError

    began: list[float] = []
    with pytest.raises(KeyError):
        await leave()
    assert time.monotonic() - began[0] < BOUND
    assert not is_alive(int(path.read_text()))


@pytest.mark.parametrize("session", [False, True], ids=["in its group", "in a session"])
@pytest.mark.parametrize("how", ["cancel", "timeout", "leave", "crash"])
async def test_the_whole_tree_of_a_call_goes_with_it(
    how: str, session: bool, tmp_path: Path
) -> None:
    path = tmp_path / "pids"

    async def run() -> None:
        async with Pool(1) as pool:
            timed = pool.options(timeout=1.0) if how == "timeout" else pool
            turn = timed.submit(start_and_hang, str(path), session=session)
            await await_until(lambda: written(path))
            if how == "leave":
                raise KeyError
            if how == "cancel":
                turn.cancel()
            if how == "crash":
                os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
            with pytest.raises((asyncio.CancelledError, TurnTimeout, WorkerDied)):
                await turn
            worker, child = (int(one) for one in path.read_text().split())
            await await_until(lambda: not is_alive(worker))
            if how != "crash" or not session:
                await await_until(lambda: not is_alive(child))
            assert await pool.run(double, 2) == 4

    if how == "leave":
        with pytest.raises(KeyError):
            await run()
    else:
        await run()
    # What a killed worker had started in a session of its own is ended with the pool at latest.
    assert not [pid for pid in path.read_text().split() if is_alive(int(pid))]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
@pytest.mark.parametrize("both", [False, True], ids=["it alone", "the reaper above it too"])
async def test_leaving_while_the_process_that_forks_workers_is_stopped(
    both: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ZYGOTE_GRACE", 0.1)
    monkeypatch.setattr(engine_zygote, "_EXIT_GRACE", 0.5)
    path = tmp_path / "pids"

    async def leave() -> None:
        async with Pool(1) as pool:
            turn = pool.submit(start_and_hang, str(path), session=True)
            await await_until(lambda: written(path))
            zygote = psutil.Process(int(written(path).split()[0])).parent()
            assert zygote is not None
            for one in [zygote, zygote.parent()][: 1 + both]:
                assert one is not None
                one.suspend()
            turn.cancel()
            raise KeyError

    with pytest.raises(KeyError):
        await leave()
    assert not [pid for pid in path.read_text().split() if is_alive(int(pid))]


async def test_a_grandchild_in_a_session_of_its_own_whose_parent_has_ended(
    tmp_path: Path,
) -> None:
    """It is nobody's child any more but the zygote's, which finds it."""

    def leave_daemon(path: str) -> None:
        code = (
            "import subprocess, sys; "
            f"child = subprocess.Popen({SLEEPER!r}, start_new_session=True); "
            "open(sys.argv[1], 'w').write(f'{child.pid}\\n')"
        )
        subprocess.run([sys.executable, "-S", "-c", code, path], check=True)
        time.sleep(60)

    path = tmp_path / "pid"
    async with Pool(1) as pool:
        turn = pool.submit(leave_daemon, str(path))
        await await_until(lambda: written(path))
        daemon = int(path.read_text())
        assert is_alive(daemon)
        turn.cancel()
        assert await pool.run(double, 2) == 4
    assert not is_alive(daemon)


async def test_a_daemon_that_a_call_left_is_gone_when_the_pool_is_left(tmp_path: Path) -> None:
    def leave_daemon() -> int:
        return subprocess.Popen(SLEEPER, start_new_session=True).pid

    async with Pool(1) as pool:
        daemon = await pool.run(leave_daemon)
        assert is_alive(daemon)  # it may do good between calls
    assert not is_alive(daemon)


async def test_a_call_that_left_a_thread_that_is_no_daemon_holds_up_nothing() -> None:
    def leave_thread() -> None:
        threading.Thread(target=time.sleep, args=(30,)).start()

    began = time.monotonic()
    async with Pool(1) as pool:
        await pool.run(leave_thread)
        assert await pool.run(double, 2) == 4
    async with Pool(1, turns_per_worker=1) as pool:
        for _ in range(3):
            await pool.run(leave_thread)
    assert time.monotonic() - began < 3 * BOUND


async def test_a_call_may_tidy_up_when_it_is_asked_to_end(tmp_path: Path) -> None:
    def tidy_up(path: str) -> None:
        def note(*_: object) -> None:
            Path(path + ".tidied").write_text("tidied\n")
            sys.exit(0)

        signal.signal(signal.SIGTERM, note)
        say_and_hang(path)

    path = tmp_path / "pid"
    async with Pool(1) as pool:
        turn = pool.submit(tidy_up, str(path))
        await await_until(lambda: written(path))
        turn.cancel()
        assert await pool.run(double, 2) == 4
    assert (tmp_path / "pid.tidied").exists()


async def test_a_call_that_answers_the_request_to_end_by_a_value_is_still_cancelled(
    tmp_path: Path,
) -> None:
    def answer_late(path: str) -> str:
        def leave(*_: object) -> None:
            raise InterruptedError

        signal.signal(signal.SIGTERM, leave)
        with contextlib.suppress(InterruptedError):
            say_and_hang(path)
        return "late"

    path = tmp_path / "pid"
    async with Pool(1) as pool:
        turn = pool.submit(answer_late, str(path))
        await await_until(lambda: written(path))
        turn.cancel()
        behind = [pool.submit(double, n) for n in range(20)]
        assert await asyncio.gather(*behind) == [2 * n for n in range(20)]
        assert turn.cancelled()


async def test_a_call_that_tidies_up_does_not_cost_the_one_behind_it_its_worker(
    tmp_path: Path,
) -> None:
    """It may have begun there by the time that what does not heed SIGTERM is killed."""

    def leave_or_linger(path: str, lingers: bool) -> str:
        if lingers:
            time.sleep(0.7)  # longer than the grace
        elif path:

            def leave(*_: object) -> None:
                raise InterruptedError

            signal.signal(signal.SIGTERM, leave)
            say_and_hang(path)
        return "done"

    async with Pool(1) as pool:
        for n in range(3):
            for _ in range(30):  # so that calls are sent ahead
                await pool.run(leave_or_linger, "", False)
            path = str(tmp_path / f"pid{n}")
            first = pool.submit(leave_or_linger, path, False)
            behind = pool.submit(leave_or_linger, "", True)
            await await_until(lambda path=path: written(Path(path)))  # type: ignore[misc]
            first.cancel()
            assert await behind == "done"
            assert first.cancelled()


async def test_an_async_call_that_does_not_heed_its_end_costs_the_others_nothing(
    tmp_path: Path,
) -> None:
    """They share its process, so that is not killed for it."""

    async def heed_soon() -> int:
        from hmz_mp_worker import turns

        turns._HEED = 0.1
        return os.getpid()

    async def go_on(path: str) -> None:
        Path(path).write_text(f"{os.getpid()}\n")
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    async def wait_for(path: str) -> int:
        await await_until(lambda: Path(path).exists())
        return os.getpid()

    async with Pool(1) as pool:
        worker = await pool.run(heed_soon)
        others = [pool.submit(wait_for, str(tmp_path / "go")) for _ in range(10)]
        cancelled = pool.submit(go_on, str(tmp_path / "cancelled"))
        late = pool.options(timeout=0.2).submit(go_on, str(tmp_path / "late"))
        await await_until(lambda: written(tmp_path / "cancelled") and written(tmp_path / "late"))
        cancelled.cancel()
        with pytest.raises(TurnTimeout):
            await late
        await await_until(lambda: pool.statistics().running == 10)
        (tmp_path / "go").touch()
        assert await asyncio.gather(*others) == [worker] * 10
        assert pool.statistics().failed == 1


async def test_an_async_call_that_holds_up_its_loop_is_ended_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "HOST_GRACE", 0.2)

    async def hold_up(path: str) -> None:
        say_and_hang(path)

    async def answer() -> int:
        return os.getpid()

    path = tmp_path / "pid"
    async with Pool(1) as pool:
        worker = await pool.run(answer)
        turn = pool.submit(hold_up, str(path))
        await await_until(lambda: written(path))
        turn.cancel()
        await await_until(lambda: not is_alive(worker))
        assert await pool.run(answer) != worker


async def test_cancelling_in_the_instant_the_next_call_begins_a_thousand_times() -> None:
    """Whatever the instant, only the cancelled turn is, and every other is answered once."""
    async with Pool(1) as pool:
        await asyncio.gather(*[pool.submit(double, n) for n in range(100)])
        cancelled = 0
        for round_ in range(1000):
            first, second, third = (pool.submit(double, n) for n in range(3))
            for _ in range(round_ % 7):
                await asyncio.sleep(0)
            cancelled += second.cancel()
            assert await first == 0
            assert await third == 4
            assert second.cancelled() or second.result() == 2
        statistics = pool.statistics()
        assert statistics.cancelled == cancelled
        assert statistics.failed == 0
        assert statistics.done == 100 + 3000 - cancelled


async def test_cancelling_what_is_just_about_to_run_behind_a_slow_call() -> None:
    async with Pool(1) as pool:
        await asyncio.gather(*[pool.submit(time.sleep, 0) for _ in range(20)])
        for delay in (0.0, 0.001, 0.004, 0.012, 0.03):
            first = pool.submit(time.sleep, 0.01)
            others = [pool.submit(time.sleep, 0) for _ in range(5)]
            await asyncio.sleep(delay)
            others[2].cancel()
            ended = await asyncio.gather(first, *others, return_exceptions=True)
            assert [type(one) for at, one in enumerate(ended) if at != 3] == [type(None)] * 5


async def test_many_stubborn_calls_end_together(tmp_path: Path) -> None:
    async with Pool(4) as pool:
        paths = [tmp_path / str(n) for n in range(4)]
        turns: list[Any] = [pool.submit(hang_ignoring, str(path)) for path in paths]
        for path in paths:
            await await_until(partial(written, path))
        began = time.monotonic()
        for turn in turns:
            turn.cancel()
        assert await pool.run(double, 2) == 4
        await await_until(lambda: not any(is_alive(int(path.read_text())) for path in paths))
        assert time.monotonic() - began < BOUND
