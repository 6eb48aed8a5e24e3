"""The pool's contract, with real worker processes, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from hmz_mp import Pool, current_pool, session_state
from hmz_mp.core.breaker import Busy
from hmz_mp.core.turns import Event, Progress, Said, Shipped, Turn
from hmz_mp.errors import (
    InitializerFailed,
    MemoryExceeded,
    PoolClosed,
    RemoteTraceback,
    TurnFailed,
    TurnTimeout,
    Unpicklable,
    WorkerDied,
    WorkerStartFailed,
)
from tests.core import functions
from tests.helpers import await_until, is_alive, written

pytestmark = pytest.mark.anyio


# What the tests ship.


def pid() -> int:
    return os.getpid()


def fail(text: str) -> None:
    raise ValueError(text)


def wait_for(path: str) -> str:
    """Run until a file is there."""
    Path(path + ".begun").touch()
    while not Path(path).exists():
        time.sleep(0.002)
    return "saw it"


def fail_first(path: str, times: int) -> int:
    """Fail the first ``times`` times; then answer how often it was tried."""
    with Path(path).open("a") as file:
        file.write("x")
    tries = len(Path(path).read_text())
    if tries <= times:
        raise ValueError(f"try {tries}")
    return tries


def overlap(folder: str, seconds: float = 0.01) -> int:
    """Answer how many calls were in here at once when this one was."""
    mine = Path(folder) / f"{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    mine.touch()
    time.sleep(seconds)
    count = len(list(Path(folder).iterdir()))
    mine.unlink()
    return count


async def async_overlap(folder: str) -> int:
    mine = Path(folder) / f"{time.monotonic_ns()}-{id(object())}"
    mine.touch()
    await asyncio.sleep(0.02)
    count = len(list(Path(folder).iterdir()))
    mine.unlink()
    return count


def count_up() -> tuple[int, int]:
    state = session_state()
    state["count"] = state.get("count", 0) + 1
    return state["count"], os.getpid()


def append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text)


class TwoArguments(Exception):
    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(code)
        self.reason = reason


def raise_two() -> None:
    raise TwoArguments(3, reason="because")


async def answer_of(turn: Turn) -> Any:
    with anyio.fail_after(20):
        return await turn


# Calls.


async def test_a_call_runs_in_another_process_and_its_answer_comes_back() -> None:
    async with Pool(2) as pool:
        assert await pool.run(pid) != os.getpid()
        assert await pool.run(divmod, 7, 2) == (3, 1)
        assert await pool.run(int, "ff", base=16) == 255


async def test_submit_returns_a_turn_at_once() -> None:
    async with Pool(1) as pool:
        first, second = pool.submit(pid), pool.options(item_id="a.py").submit(pid)
        assert (first.id, second.id) == (1, 2)
        assert second.item_id == "a.py"
        assert not first.done()
        assert await second == await first
        assert first.done()
        assert first.exception() is None
        assert first.result() == second.result()
        assert not first.cancel()


async def test_a_failure_keeps_its_type_and_has_the_workers_traceback_as_its_cause() -> None:
    async with Pool(1) as pool:
        with pytest.raises(ValueError, match="no good") as caught:
            await pool.run(fail, "no good")
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "in fail" in str(caught.value.__cause__)
        assert "hmz_mp_worker" not in str(caught.value.__cause__)
        with pytest.raises(TwoArguments) as odd:
            await pool.run(raise_two)
        assert odd.value.args == (3,)
        assert odd.value.reason == "because"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
async def test_what_would_end_the_caller_arrives_as_turn_failed(kind: type[BaseException]) -> None:
    def raise_it() -> None:
        raise kind("odd")

    async with Pool(1) as pool:
        with pytest.raises(TurnFailed, match="odd") as caught:
            await pool.run(raise_it)
        assert caught.value.type_name == kind.__name__
        assert await pool.run(abs, -1) == 1


async def test_async_functions_run_many_at_a_time_in_one_process(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        turns = [pool.submit(async_overlap, str(tmp_path)) for _ in range(50)]
        assert max([await answer_of(turn) for turn in turns]) > 25
        workers = {turn.account.worker for turn in turns if turn.account}
        assert len(workers) == 1


async def test_what_cannot_be_pickled_fails_that_turn_and_is_named() -> None:
    async with Pool(1) as pool:
        with pytest.raises(Unpicklable, match="argument 2 of divmod"):
            await pool.run(divmod, 1, threading.Lock())
        with pytest.raises(Unpicklable, match="the result, of type _thread"):
            await pool.run(threading.Lock)
        assert await pool.run(abs, -1) == 1


async def test_large_values_there_and_back() -> None:
    data = os.urandom(3_000_000)
    async with Pool(1) as pool:
        assert await pool.run(bytes, data) == data
        assert await pool.run(bytearray, data) == data
        assert len(await pool.run(bytes, 30_000_000)) == 30_000_000


async def test_large_values_of_every_kind_are_their_own_at_both_ends() -> None:
    array = pytest.importorskip("array")
    data = os.urandom(300_000)

    def change(value: Any) -> Any:
        value[0] = 7
        return value

    async with Pool(2) as pool:
        held = [await pool.run(bytes, data) for _ in range(5)]
        assert held == [data] * 5
        assert all(type(one) is bytes for one in held)
        changed = [await pool.run(change, bytearray(data)) for _ in range(3)]
        assert changed == [bytearray(b"\x07" + data[1:])] * 3
        mixed = (data, bytearray(data), [data, data], {"key": data}, array.array("B", data))
        assert await pool.run(tuple, mixed) == mixed
        turns = [pool.submit(bytes, data[at:]) for at in range(40)]
        assert [await answer_of(turn) for turn in turns] == [data[at:] for at in range(40)]


async def test_a_worker_that_ends_with_a_large_answer_on_its_way_harms_no_other() -> None:
    data = os.urandom(1_000_000)
    async with Pool(1) as pool:
        for _ in range(3):
            with pytest.raises(WorkerDied):
                await pool.run(lambda value: os._exit(len(value) % 200), data)
            assert await pool.run(bytes, data) == data


async def test_what_a_turn_prints_is_kept_with_it() -> None:
    async with Pool(1) as pool:
        turn = pool.submit(print, "hello", "there")
        await turn
        assert turn.account is not None
        assert turn.account.output == "hello there\n"
        assert turn.account.attempts == 1
        quiet = pool.submit(abs, 1)
        await quiet
        assert quiet.account is not None
        assert quiet.account.output == ""


async def test_events_tell_of_a_turn_while_it_runs() -> None:
    def reports() -> int:
        import hmz_mp
        from hmz_mp_worker import reporting

        hmz_mp.progress(0.5, "halfway")
        reporting.say("text", b"hi")
        return 1

    heard: list[Event] = []
    async with Pool(1) as pool:
        caller = pool.options(on_event=lambda _turn, event: heard.append(event))
        turn = caller.submit(reports)
        await turn
        assert turn.account is not None
        assert turn.account.worker is not None
        assert heard == [
            Shipped(turn.account.worker),
            Progress(0.5, "halfway"),
            Said("text", b"hi"),
        ]


# Faults.


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
        ("__import__('os')._exit(3)", "exited with status 3"),
        ("__import__('os').abort()", "SIGABRT"),
    ],
)
async def test_a_worker_that_ends_fails_only_the_turn_it_ran(source: str, says: str) -> None:
    async with Pool(1) as pool:
        guilty = pool.submit(eval, source)
        others = [pool.submit(abs, -at) for at in range(100)]
        with pytest.raises(WorkerDied, match=says) as caught:
            await guilty
        assert [await answer_of(turn) for turn in others] == list(range(100))
        assert caught.value.pid is not None


async def test_short_calls_shipped_behind_one_that_ends_its_worker_run_elsewhere() -> None:
    async with Pool(1) as pool:
        assert [item async for item in pool.map(abs, range(200))] == list(range(200))
        short = [pool.submit(abs, -at) for at in range(40)]
        guilty = pool.submit(os._exit, 7)
        behind = [pool.submit(abs, -at) for at in range(40)]
        assert [await answer_of(turn) for turn in short + behind] == [*range(40), *range(40)]
        with pytest.raises(WorkerDied):
            await guilty


async def test_the_error_of_a_dead_worker_has_what_it_printed() -> None:
    def complain() -> None:
        os.write(2, b"going down\n")
        os._exit(1)

    async with Pool(1) as pool:
        with pytest.raises(WorkerDied, match="going down") as caught:
            await pool.run(complain)
        assert caught.value.exitcode == 1
        assert caught.value.signal is None
        assert caught.value.stderr_tail == "going down\n"


async def test_a_lost_zygote_is_replaced(tmp_path: Path) -> None:
    import psutil

    async with Pool(1) as pool:
        before = await pool.run(pid)
        zygote = psutil.Process(before).parent()
        assert zygote is not None
        running = pool.submit(functions.note_and_hang, str(tmp_path / "begun"))
        await await_until((tmp_path / "begun").exists)
        zygote.kill()
        with pytest.raises(WorkerDied):
            await running
        assert await pool.run(pid) != before


async def test_an_initializer_runs_in_each_worker_and_its_failure_is_said_once() -> None:
    def prepare(value: str) -> None:
        os.environ["HMZ_TEST_PREPARED"] = value

    async with Pool(1, initializer=prepare, initargs=("yes",)) as pool:
        assert await pool.run(os.getenv, "HMZ_TEST_PREPARED") == "yes"
    async with Pool(2, initializer=fail, initargs=("not today",)) as pool:
        turns = [pool.submit(abs, 1) for _ in range(5)]
        for turn in turns:
            with pytest.raises(InitializerFailed, match="not today"):
                await turn
        with pytest.raises(InitializerFailed):
            await pool.run(abs, 1)


async def test_an_initializer_that_ends_its_worker_does_not_start_workers_for_ever() -> None:
    async with Pool(2, initializer=os._exit, initargs=(4,)) as pool:
        with pytest.raises(WorkerStartFailed, match="exited with status 4"):
            await pool.run(abs, 1)


async def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    async with Pool(1, preload=["no_such_module_anywhere"]) as pool:
        with pytest.raises(WorkerStartFailed, match="no_such_module_anywhere"):
            await pool.run(abs, 1)


async def test_preloaded_modules_are_there_when_a_worker_starts() -> None:
    async with Pool(1, preload=["colorsys"]) as pool:
        assert await pool.run(eval, "'colorsys' in __import__('sys').modules")


async def test_environment_and_directory_of_workers(tmp_path: Path) -> None:
    async with Pool(1, env={"HMZ_TEST_ENV": "here"}, cwd=tmp_path) as pool:
        assert await pool.run(os.getenv, "HMZ_TEST_ENV") == "here"
        assert await pool.run(os.getcwd) == str(tmp_path.resolve())


# Stopping.


async def test_cancelling_a_running_call_really_stops_it(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(wait_for, str(tmp_path / "never"))
        await await_until((tmp_path / "never.begun").exists)
        worker = next(one.pid for one in pool.statistics().workers)
        assert worker is not None
        assert turn.running()
        assert turn.cancel()
        assert turn.cancelled()
        await await_until(lambda: not is_alive(worker))
        assert await pool.run(abs, -3) == 3


async def test_awaiting_inside_a_cancelled_scope_cancels_the_turn(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(wait_for, str(tmp_path / "never"))
        with anyio.move_on_after(0.05) as scope:
            await turn
        assert scope.cancelled_caught
        assert turn.cancelled()
        assert await pool.run(abs, -3) == 3


async def test_a_queued_turn_that_is_cancelled_never_runs(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        blocking = pool.submit(wait_for, str(tmp_path / "go"))
        queued = pool.submit(append, str(tmp_path / "ran"), "x")
        after = pool.submit(abs, -1)
        assert queued.cancel()
        (tmp_path / "go").touch()
        assert await blocking == "saw it"
        assert await after == 1
        assert not (tmp_path / "ran").exists()


async def test_cancelling_among_short_calls_harms_no_other() -> None:
    async with Pool(2) as pool:
        assert [item async for item in pool.map(abs, range(300))] == list(range(300))
        for _ in range(20):
            turns = [pool.submit(abs, -at) for at in range(60)]
            await anyio.lowlevel.checkpoint()
            for turn in turns[::7]:
                turn.cancel()
            for at, turn in enumerate(turns):
                if not turn.cancelled():
                    assert await answer_of(turn) == at
        assert pool.statistics().failed == 0


async def test_a_cancelled_async_call_can_clean_up_and_others_go_on(tmp_path: Path) -> None:
    async def wait(path: str) -> None:
        Path(path + ".begun").touch()
        try:
            await asyncio.sleep(60)
        finally:
            Path(path + ".cleaned").touch()

    async with Pool(1) as pool:
        other = pool.submit(wait, str(tmp_path / "other"))
        turn = pool.submit(wait, str(tmp_path / "turn"))
        await await_until((tmp_path / "turn.begun").exists)
        turn.cancel()
        await await_until((tmp_path / "turn.cleaned").exists)
        assert not other.done()
        other.cancel()


async def test_timeout_counts_from_the_beginning_of_the_call() -> None:
    async with Pool(1) as pool:
        caller = pool.options(timeout=0.3)
        turns = [caller.submit(time.sleep, 0.2) for _ in range(3)]
        for turn in turns:
            assert await turn is None
        with pytest.raises(TurnTimeout, match=r"0\.3 s after beginning") as caught:
            await caller.run(time.sleep, 60)
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(TurnTimeout):
            await caller.run(asyncio.sleep, 60)


async def test_deadline_counts_from_submission() -> None:
    async with Pool(1) as pool:
        caller = pool.options(deadline=0.4)
        running, queued = caller.submit(time.sleep, 60), caller.submit(abs, 1)
        for turn in (running, queued):
            with pytest.raises(TurnTimeout, match=r"0\.4 s after being submitted"):
                await turn
        assert await pool.run(abs, -2) == 2


async def test_retries_try_again(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        caller = pool.options(retries=2)
        turn = caller.submit(fail_first, str(tmp_path / "a"), 2)
        assert await turn == 3
        assert turn.account is not None
        assert turn.account.attempts == 3
        with pytest.raises(ValueError, match="try 3"):
            await caller.run(fail_first, str(tmp_path / "b"), 5)
        assert pool.statistics().retried == 4


async def test_what_retry_if_says_is_no_use_is_not_tried_again(tmp_path: Path) -> None:
    def useful(error: BaseException) -> bool:
        return "try 1" in str(error)

    def broken(error: BaseException) -> bool:
        raise RuntimeError("broken")

    async with Pool(1) as pool:
        caller = pool.options(retries=5, retry_if=useful)
        with pytest.raises(ValueError, match="try 2"):
            await caller.run(fail_first, str(tmp_path / "a"), 5)
        assert pool.statistics().retried == 1
        assert await pool.options(retries=2, retry_if=broken).run(
            fail_first, str(tmp_path / "b"), 2
        )


async def test_memory_over_the_limit_ends_the_turn() -> None:
    def hold(size: int) -> None:
        held = bytearray(size)
        held[::4096] = b"x" * len(held[::4096])
        time.sleep(60)

    async with Pool(1) as pool:
        with pytest.raises(MemoryExceeded) as caught:
            await pool.options(memory=100_000_000).run(hold, 300_000_000)
        assert caught.value.limit == 100_000_000
        assert caught.value.used > 100_000_000
        assert await pool.options(memory=500_000_000).run(abs, -1) == 1


# Widths.


async def test_at_once_of_the_pool_is_never_exceeded_in_the_workers(tmp_path: Path) -> None:
    async with Pool(4, at_once=2) as pool:
        seen: list[int] = []
        while len(seen) < 1000 and 2 not in seen:  # until a second worker has started
            turns = [pool.submit(overlap, str(tmp_path)) for _ in range(30)]
            seen += [await answer_of(turn) for turn in turns]
    assert max(seen) == 2


async def test_at_once_of_options_bounds_only_what_was_submitted_through_it(tmp_path: Path) -> None:
    async with Pool(3) as pool:
        narrow = pool.options(at_once=1)
        blocking = narrow.submit(wait_for, str(tmp_path / "go"))
        inside = tmp_path / "inside"
        inside.mkdir()
        turns = [narrow.submit(overlap, str(inside)) for _ in range(8)]
        await pool.run(pid)
        assert not any(turn.running() for turn in turns)
        (tmp_path / "go").touch()
        assert await blocking == "saw it"
        assert max([await answer_of(turn) for turn in turns]) == 1


async def test_a_limit_is_shared_by_all_that_name_it(tmp_path: Path) -> None:
    async with Pool(4) as pool:
        limit = pool.limit("downstream", at_once=3)
        assert pool.limit("downstream") is limit
        calls = pool.options(limit="downstream")
        waits = pool.options(limit=limit)
        turns = [calls.submit(overlap, str(tmp_path)) for _ in range(15)]
        turns += [waits.submit(async_overlap, str(tmp_path)) for _ in range(15)]
        seen = [await answer_of(turn) for turn in turns]
        assert max(seen) <= 3
        assert pool.statistics().limits["downstream"].widest == 3
        with pytest.raises(ValueError, match="at_once=5"):
            pool.limit("downstream", at_once=5)
        with pytest.raises(ValueError, match="no limit 'other'"):
            pool.options(limit="other")


async def test_per_minute_holds_back_what_is_too_many() -> None:
    async with Pool(1) as pool:
        pool.limit("rated", per_minute=2)
        turns = [pool.options(limit="rated").submit(abs, -at) for at in range(3)]
        assert [await turns[0], await turns[1]] == [0, 1]
        assert not turns[2].done()
        assert pool.statistics().limits["rated"].waiting == 1
        turns[2].cancel()


# Sessions.


async def test_turns_of_a_session_run_in_order_in_one_process_with_its_state() -> None:
    async with Pool(3) as pool:
        session = pool.session("counting")
        turns = [session.submit(count_up) for _ in range(20)]
        answers = [await answer_of(turn) for turn in turns]
        assert [count for count, _ in answers] == list(range(1, 21))
        assert len({worker for _, worker in answers}) == 1
        assert session.restarts == 0
        assert (await pool.session().run(count_up))[0] == 1


async def test_turns_of_one_session_never_overlap_and_those_of_many_do(tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    async with Pool(2) as pool:
        session = pool.session()
        turns = [session.submit(async_overlap, str(one)) for _ in range(10)]
        assert [await answer_of(turn) for turn in turns] == [1] * 10
        sessions = [pool.options(at_once=0).session() for _ in range(200)]
        turns = [one.submit(async_overlap, str(many)) for one in sessions]
        seen = [await answer_of(turn) for turn in turns]
        assert max(seen) > 100
        narrow = pool.options(at_once=7)
        turns = [narrow.session().submit(async_overlap, str(many)) for _ in range(60)]
        seen = [await answer_of(turn) for turn in turns]
        assert max(seen) == 7


async def test_a_session_whose_worker_is_lost_goes_on_with_an_empty_state() -> None:
    async with Pool(1) as pool:
        session = pool.session()
        assert (await session.run(count_up))[0] == 1
        lost, after = session.submit(os._exit, 1), session.submit(count_up)
        with pytest.raises(WorkerDied):
            await lost
        assert (await after)[0] == 1
        assert session.restarts == 1


async def test_a_session_of_async_functions_has_its_state_too() -> None:
    async def count() -> int:
        return count_up()[0]

    async with Pool(2) as pool:
        session = pool.session()
        assert [await session.run(count) for _ in range(3)] == [1, 2, 3]


async def test_the_state_of_a_session_goes_with_it() -> None:
    def states() -> int:
        from hmz_mp_worker.state import current_turn

        turn = current_turn()
        assert turn is not None
        return len(turn.sessions)

    async with Pool(1) as pool:
        session = pool.session()
        await session.run(count_up)
        assert await pool.run(states) == 1
        del session
        assert await pool.run(states) == 0


async def test_session_state_outside_a_session_says_what_to_do() -> None:
    async with Pool(1) as pool:
        with pytest.raises(RuntimeError, match=r"pool.session\(\)"):
            await pool.run(count_up)
    with pytest.raises(RuntimeError, match="in a worker"):
        session_state()


async def test_ten_thousand_sessions_of_which_a_hundred_take_a_turn() -> None:
    async with Pool(2) as pool:
        sessions = [pool.session() for _ in range(10_000)]
        turns = [session.submit(count_up) for session in sessions[::100]]
        assert [(await answer_of(turn))[0] for turn in turns] == [1] * 100
        assert len(pool.statistics().workers) <= 2


# Leaving.


async def test_leaving_waits_for_what_was_submitted(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        turns = [pool.submit(append, str(tmp_path / "out"), "x") for _ in range(30)]
    assert all(turn.done() for turn in turns)
    assert (tmp_path / "out").read_text() == "x" * 30


async def test_leaving_by_an_exception_ends_every_worker_and_its_children(tmp_path: Path) -> None:
    def start_child(path: str) -> None:
        import subprocess
        import sys

        code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        Path(path).write_text(f"{os.getpid()} {child.pid}\n")
        time.sleep(60)

    note = tmp_path / "pids"
    turn: Turn | None = None

    async def leave_early() -> None:
        nonlocal turn
        async with Pool(2) as pool:
            turn = pool.submit(start_child, str(note))
            await await_until(lambda: written(note))
            raise KeyError("leave")

    with pytest.raises(KeyError):
        await leave_early()
    assert turn is not None
    assert turn.cancelled()
    assert not any(is_alive(int(word)) for word in note.read_text().split())


async def test_leaving_by_cancellation_returns_with_nothing_left(tmp_path: Path) -> None:
    with anyio.move_on_after(0.3):
        async with Pool(1) as pool:
            turn = pool.submit(wait_for, str(tmp_path / "never"))
            await anyio.sleep(30)
    assert turn.cancelled()


async def test_workers_end_when_they_have_been_idle() -> None:
    async with Pool(1, idle_timeout=0.1) as pool:
        first = await pool.run(pid)
        await await_until(lambda: not pool.statistics().workers)
        assert await pool.run(pid) != first


async def test_workers_are_replaced_after_their_turns() -> None:
    async with Pool(1, turns_per_worker=2) as pool:
        turns = [pool.submit(pid) for _ in range(10)]
        pids = [await answer_of(turn) for turn in turns]
        assert max(pids.count(one) for one in pids) == 2
        failing = [pool.submit(fail, "x") for _ in range(4)]
        for turn in failing:
            with pytest.raises(ValueError, match="x"):
                await answer_of(turn)


# Use.


async def test_the_pool_in_use_is_the_current_one() -> None:
    assert current_pool() is None
    async with Pool(1) as outer:
        assert current_pool() is outer
        async with Pool(1) as inner:
            assert current_pool() is inner
        assert current_pool() is outer
    assert current_pool() is None


async def test_a_pool_out_of_place_says_so() -> None:
    pool = Pool(1)
    with pytest.raises(PoolClosed, match="async with"):
        pool.submit(abs, 1)
    async with pool:
        with pytest.raises(RuntimeError, match="from another thread"):
            await anyio.to_thread.run_sync(pool.submit, abs, 1)
        with pytest.raises(PoolClosed, match="entered before"):
            await pool.__aenter__()
    with pytest.raises(PoolClosed, match="was left"):
        pool.submit(abs, 1)
    with pytest.raises(PoolClosed, match="make a new one"):
        await pool.__aenter__()


async def test_a_submit_of_what_is_no_function_says_what_to_pass() -> None:
    async def nothing() -> None: ...

    async with Pool(1) as pool:
        coroutine: Any = nothing()
        with pytest.raises(TypeError, match=r"submit\(fn, \*args\)"):
            pool.submit(coroutine)
        value: Any = 3
        with pytest.raises(TypeError, match="this is int"):
            pool.submit(value)
        with pytest.raises(TypeError, match="generator function"):
            pool.submit(_generator)


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": -1}, "workers"),
        ({"at_once": -1}, "at_once"),
        ({"retries": -1}, "retries"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -3}, "timeout"),
        ({"memory": -1}, "memory"),
        ({"idle_timeout": 0}, "idle_timeout"),
        ({"turns_per_worker": -1}, "turns_per_worker"),
        ({"engine": "nowhere"}, "nowhere"),
    ],
)
async def test_options_that_make_no_sense_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pool(**options)


async def test_options_of_calls_that_make_no_sense_are_named() -> None:
    async with Pool(1) as pool:
        with pytest.raises(ValueError, match="deadline"):
            pool.options(deadline=-1)
        with pytest.raises(ValueError, match="at_once"):
            pool.options(at_once=-1)
        with pytest.raises(TypeError, match="at_once"):
            pool.map(abs, [1], at_once=True)
        with pytest.raises(TypeError, match="unexpected"):
            pool.options(colour="red")  # type: ignore[call-arg]  # what the test is about


async def test_statistics_count_what_happened(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        await pool.run(abs, 1)
        with pytest.raises(ValueError, match="x"):
            await pool.run(fail, "x")
        blocked = [pool.submit(wait_for, str(tmp_path / "go")) for _ in range(3)]
        await await_until(lambda: pool.statistics().running == 2)
        blocked[2].cancel()
        statistics = pool.statistics()
        (tmp_path / "go").touch()
        assert (statistics.done, statistics.failed, statistics.cancelled) == (1, 1, 1)
        assert statistics.queued == 0
        assert len(statistics.workers) == 2
        assert all(one.rss > 1_000_000 and one.pid for one in statistics.workers)
        assert {one.state for one in statistics.workers} == {"ready"}


async def test_what_an_idle_worker_waits_for_is_shipped_at_once(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        await pool.run(abs, 1)
        first = pool.submit(wait_for, str(tmp_path / "go"))
        second = pool.submit(abs, -2)
        assert first.running()
        assert not second.running()
        (tmp_path / "go").touch()
        assert [await first, await second] == ["saw it", 2]


async def test_a_listener_that_submits_while_its_turn_is_shipped() -> None:
    async with Pool(1) as pool:
        await pool.run(abs, 1)
        more: list[Turn] = []

        def submit_more(turn: Turn, event: Event) -> None:
            if isinstance(event, Shipped):
                more.append(pool.submit(abs, -2))

        assert await pool.options(on_event=submit_more).run(abs, -1) == 1
        assert [await turn for turn in more] == [2]


async def test_higher_priority_is_run_first(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        blocking = pool.submit(wait_for, str(tmp_path / "go"))
        usual = [pool.submit(append, str(tmp_path / "order"), "u") for _ in range(3)]
        urgent = pool.options(priority=1).submit(append, str(tmp_path / "order"), "U")
        (tmp_path / "go").touch()
        for turn in (blocking, urgent, *usual):
            await turn
    assert (tmp_path / "order").read_text() == "Uuuu"


async def test_interrupts_from_the_terminal_do_not_reach_workers(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        turn = pool.submit(wait_for, str(tmp_path / "go"))
        await await_until((tmp_path / "go.begun").exists)
        worker = pool.statistics().workers[0].pid
        assert worker is not None
        os.kill(worker, signal.SIGINT)
        (tmp_path / "go").touch()
        assert await turn == "saw it"


async def test_repr_tells_the_state() -> None:
    pool = Pool(2)
    assert repr(pool) == "<Pool new workers=2>"
    async with pool:
        assert repr(pool) == "<Pool open workers=2>"
        turn = pool.options(item_id="x").submit(abs, 1)
        assert repr(turn) == "<Turn 1 queued item_id='x'>"
        await turn
        assert repr(turn) == "<Turn 1 done item_id='x'>"
    assert repr(pool) == "<Pool left workers=2>"


class TooMany(Exception):
    """What a service says that is too busy."""


async def test_a_limit_backs_off_for_whatever_says_that_it_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmz_mp.core.limits.random", lambda: 0.0)

    def ask(name: str, times: int) -> int:
        with open(name, "a") as file:
            file.write("asked\n")
        with open(name) as file:
            asked = len(file.readlines())
        if asked <= times:
            raise TooMany(asked)
        return asked

    def is_busy(error: BaseException) -> Busy | None:
        return Busy() if isinstance(error, TooMany) else None

    async with Pool(1) as pool:
        busy = pool.options(limit=pool.limit("service"), is_busy=is_busy)
        turn = busy.submit(ask, str(tmp_path / "a"), 2)
        assert await turn == 3
        assert turn.account is not None
        assert turn.account.attempts == 3
        with pytest.raises(TooMany):
            await busy.run(ask, str(tmp_path / "b"), 99)
        with pytest.raises(ZeroDivisionError):
            await busy.run(divmod, 1, 0)


async def test_what_cannot_say_whether_it_is_busy_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def is_busy(error: BaseException) -> None:
        raise RuntimeError("no idea")

    async with Pool(1) as pool:
        busy = pool.options(limit=pool.limit("unknown"), is_busy=is_busy)
        with pytest.raises(ZeroDivisionError):
            await busy.run(divmod, 1, 0)
        assert "no idea" in caplog.text
