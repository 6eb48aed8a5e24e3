"""What is promised of pools whatever their engine: over each of them, and over a fake.

The fake has no processes and its time is virtual, so here is what can be seen without a look at a
process: its workers are asked of the `machine`.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from hmz_mp.core.turns import Event, Logged, Progress, Said, Shipped
from hmz_mp.errors import (
    InitializerFailed,
    MemoryExceeded,
    RemoteTraceback,
    TurnTimeout,
    WorkerDied,
)
from tests.contract import calls
from tests.contract.conftest import FAKE, Machine, MakePool, engine_address
from tests.core import functions
from tests.helpers import await_until, written

pytestmark = pytest.mark.anyio
both_kinds = pytest.mark.parametrize("kind", ["call", "host"])

MIB = 1 << 20
HANG = {"call": functions.note_and_hang, "host": functions.note_and_hang_async}
IDENTITY: dict[str, Callable[[Any], Any]] = {
    "call": functions.identity,
    "host": functions.identity_async,
}


@pytest.fixture(
    scope="module", params=[FAKE, "local", pytest.param("dask", marks=pytest.mark.slow)]
)
def engine(request: pytest.FixtureRequest) -> str:
    """Return one engine's name after the other."""
    return engine_address(request.param, request)


async def _ended(machine: Machine, pids: list[int]) -> None:
    await await_until(lambda: not any(map(machine.is_alive, pids)))


def _pids(path: Path) -> list[int]:
    return [int(word) for word in written(path).split() if word.isdigit()]


# Answers.


@both_kinds
async def test_answers_are_in_order_and_complete(make_pool: MakePool, kind: str) -> None:
    async with make_pool(2) as pool:
        turns = [pool.submit(IDENTITY[kind], at) for at in range(500)]
        assert [await turn for turn in turns] == list(range(500))


async def test_a_map_is_in_order_and_reads_a_window(make_pool: MakePool) -> None:
    async with make_pool(2) as pool:
        found = []
        async for value in pool.map(functions.identity, itertools.count()):
            found.append(value)
            if value == 1000:
                break
        assert found == list(range(1001))


async def test_lambdas_closures_and_methods(make_pool: MakePool) -> None:
    base = 40
    async with make_pool(1) as pool:
        assert await pool.run(lambda x: x + base, 2) == 42
        assert await pool.run(functions.Callable(3).method, 2) == 6
        assert await pool.run(functions.AsyncCallable(3), 2) == 6


@both_kinds
async def test_failures_keep_their_type_and_traceback(make_pool: MakePool, kind: str) -> None:
    fail = functions.fail if kind == "call" else functions.fail_async
    async with make_pool(1) as pool:
        with pytest.raises(LookupError, match="this one") as caught:
            await pool.run(fail, LookupError("this one"))
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert await pool.run(len, "ab") == 2


@both_kinds
async def test_each_turn_ends_exactly_once(make_pool: MakePool, tmp_path: Path, kind: str) -> None:
    """However it ends, its done callback is called once, and its ending does not change."""
    fail = functions.fail if kind == "call" else functions.fail_async
    ended: Counter[int] = Counter()
    async with make_pool(2) as pool:
        hurried = pool.options(timeout=0.3)
        turns = {
            "answered": [pool.submit(IDENTITY[kind], at) for at in range(30)],
            "failed": [pool.submit(fail, LookupError(at)) for at in range(30)],
            "timed out": [hurried.submit(HANG[kind], str(tmp_path / "hurried"))],
            "cancelled": [pool.submit(HANG[kind], str(tmp_path / "hangs")) for _ in range(2)],
        }
        for turn in itertools.chain.from_iterable(turns.values()):
            turn.add_done_callback(lambda turn: ended.update([turn.id]))
        await await_until(lambda: all(turn.done() for turn in turns["timed out"]))
        for turn in turns["cancelled"]:
            assert turn.cancel()
            assert not turn.cancel()
    assert [turn.result() for turn in turns["answered"]] == [*range(30)]
    assert all(isinstance(turn.exception(), LookupError) for turn in turns["failed"])
    assert all(isinstance(turn.exception(), TurnTimeout) for turn in turns["timed out"])
    assert all(turn.cancelled() for turn in turns["cancelled"])
    assert ended == {turn.id: 1 for turn in itertools.chain.from_iterable(turns.values())}


async def test_a_function_is_there_before_the_call_that_names_it(make_pool: MakePool) -> None:
    """Also when more come than are kept, when they come again, and in workers that are new."""
    async with make_pool(2, turns_per_worker=500) as pool:
        for first in (0, 300, 600, 0):
            turns = [pool.submit(lambda x, at=at: x + at, 1) for at in range(first, first + 300)]
            assert [await turn for turn in turns] == list(range(first + 1, first + 301))


# How many at once.


@both_kinds
async def test_at_once_is_never_exceeded(make_pool: MakePool, tmp_path: Path, kind: str) -> None:
    overlap = functions.overlap if kind == "call" else functions.overlap_async
    async with make_pool(4) as pool:
        narrow = pool.options(at_once=2)
        turns = [narrow.submit(overlap, str(tmp_path)) for _ in range(40)]
        seen = [await turn for turn in turns]
        assert max(seen) <= 2
        assert pool.statistics().widest <= 2


async def test_workers_work_at_the_same_time(make_pool: MakePool, tmp_path: Path) -> None:
    async with make_pool(2) as pool:
        paths = [str(tmp_path / name) for name in "ab"]
        turns = [pool.submit(calls.meet, *pair) for pair in (paths, paths[::-1])]
        with anyio.fail_after(20):
            pids = [await turn for turn in turns]
        assert len(set(pids)) == 2


# Sessions.


@both_kinds
async def test_fifty_sessions_are_in_order(make_pool: MakePool, kind: str) -> None:
    count = functions.count_state if kind == "call" else functions.count_state_async
    async with make_pool(2) as pool:
        sessions = [pool.session(str(at)) for at in range(50)]
        turns = [[one.submit(count) for one in sessions] for _ in range(5)]
        assert [[await turn for turn in some] for some in turns] == [
            [at] * 50 for at in range(1, 6)
        ]


async def test_a_session_whose_worker_is_lost_begins_again(make_pool: MakePool) -> None:
    async with make_pool(2) as pool:
        session = pool.session()
        assert [await session.run(functions.count_state) for _ in range(3)] == [1, 2, 3]
        with pytest.raises(WorkerDied):
            await session.run(functions.die)
        assert await session.run(functions.count_state) == 1
        assert session.restarts == 1


# Stopping.


@both_kinds
async def test_cancelling_a_running_call_stops_it(
    make_pool: MakePool, machine: Machine, tmp_path: Path, kind: str
) -> None:
    async with make_pool(1) as pool:
        turn = pool.submit(HANG[kind], str(tmp_path / "pid"))
        await await_until(lambda: written(tmp_path / "pid"))
        behind = [pool.submit(IDENTITY[kind], at) for at in range(3)]
        assert turn.cancel()
        assert [await one for one in behind] == [0, 1, 2]
        if kind == "call":
            await _ended(machine, _pids(tmp_path / "pid"))
        else:
            await await_until(lambda: "cancelled" in written(tmp_path / "pid"))


async def test_a_timeout_stops_a_running_call(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(1) as pool:
        path = tmp_path / "pid"
        with pytest.raises(TurnTimeout) as caught:
            await pool.options(timeout=0.3).run(functions.note_and_hang, str(path))
        assert (caught.value.seconds, caught.value.clock) == (0.3, "timeout")
        await _ended(machine, _pids(path))
        assert await pool.run(len, "ab") == 2


async def test_a_call_over_its_memory_is_ended(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(1) as pool:
        path = tmp_path / "pid"
        narrow = pool.options(memory=128 * MIB)
        with pytest.raises(MemoryExceeded):
            await narrow.run(calls.hold, str(path), 200 * MIB)
        await _ended(machine, _pids(path))
        assert await narrow.run(len, "ab") == 2


async def test_leaving_by_an_exception_ends_what_runs(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "pid"

    async def leave() -> None:
        async with make_pool(1) as pool:
            pool.submit(functions.note_and_hang, str(path))
            await await_until(lambda: written(path))
            raise KeyError

    with pytest.raises(KeyError):
        await leave()
    assert not any(map(machine.is_alive, _pids(path)))


# Blame.


async def test_a_killed_call_fails_alone(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(2) as pool:
        path = tmp_path / "pid"
        before = [pool.submit(functions.identity, at) for at in range(50)]
        turn = pool.options(item_id="the one").submit(functions.note_and_hang, str(path))
        after = [pool.submit(functions.identity, at) for at in range(50)]
        await await_until(lambda: written(path))
        (pid,) = _pids(path)
        machine.kill(pid)
        with pytest.raises(WorkerDied, match="the one") as caught:
            await turn
        assert (caught.value.pid, caught.value.signal) == (pid, signal.SIGKILL)
        assert [await one for one in before + after] == [*range(50)] * 2


async def test_each_answer_counts_once_when_workers_die(
    make_pool: MakePool, tmp_path: Path
) -> None:
    path = str(tmp_path / "ran")
    async with make_pool(2) as pool:
        await pool.run(functions.note, path, "warm")
        turns, fatal = [], []
        for at in range(100):
            turns.append(pool.submit(functions.note, path, str(at)))
            if at % 50 == 25:
                fatal.append(pool.submit(functions.die))
        for turn in fatal:
            with pytest.raises(WorkerDied) as caught:
                await turn
            assert caught.value.stderr_tail == "last words\n"
        for turn in turns:
            await turn
    assert sorted(written(tmp_path / "ran").split()[1:], key=int) == [str(at) for at in range(100)]


async def test_a_retried_turn_runs_again_elsewhere(make_pool: MakePool, tmp_path: Path) -> None:
    async with make_pool(1) as pool:
        path = str(tmp_path / "died")
        assert await pool.options(retries=1).run(functions.die_the_first_time, path) == "lived"


async def test_what_waits_behind_a_long_call_runs_elsewhere(
    make_pool: MakePool, tmp_path: Path
) -> None:
    """Shipped ahead behind what turns out to be long, calls come back and are run once."""
    async with make_pool(2) as pool:
        path, gone = str(tmp_path / "ran"), str(tmp_path / "go")
        for _ in range(20):  # so that these are known to be short
            await pool.run(calls.note_or_wait, path, "warm", "")
        long = pool.submit(calls.note_or_wait, path, "long", gone)
        turns = [pool.submit(calls.note_or_wait, path, str(at), "") for at in range(100)]
        with anyio.fail_after(20):
            for turn in turns:
                await turn
        Path(gone).touch()
        await long
    ran = [word for word in written(tmp_path / "ran").split() if word.isdigit()]
    assert sorted(ran, key=int) == [str(at) for at in range(100)]


# What running calls say.


@both_kinds
async def test_what_is_said_comes_back(
    make_pool: MakePool, machine: Machine, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    events: list[Event] = []
    async with make_pool(1) as pool:
        speaking = pool.options(on_event=lambda _, event: events.append(event))
        speak = functions.speak if kind == "call" else calls.speak_async
        with caplog.at_level(logging.WARNING):
            turn = speaking.submit(speak, "words")
            pid = await turn
        account = turn.account
    assert account is not None
    assert (account.worker, account.output) == (pid, "words\n")
    assert 0 <= machine.now() - account.began < 60  # by the clock of this process
    assert "logged words" in caplog.text
    kinds = [type(event) for event in events]
    assert kinds == [Shipped, Logged, Progress, Said]
    assert events[2] == Progress(0.5, "words")


# Starting.


async def test_an_initializer_that_raises_fails_every_turn(make_pool: MakePool) -> None:
    async with make_pool(2, initializer=functions.fail, initargs=(KeyError("set up"),)) as pool:
        for turn in [pool.submit(len, "ab") for _ in range(3)]:
            with pytest.raises(InitializerFailed, match="set up"):
                await turn


async def test_an_initializer_runs_first(make_pool: MakePool, tmp_path: Path) -> None:
    path = str(tmp_path / "set up")
    async with make_pool(1, initializer=functions.note, initargs=(path, "up")) as pool:
        assert await pool.run(os.path.exists, path)
    assert written(tmp_path / "set up") == "up\n"


async def test_statistics_name_the_workers(make_pool: MakePool) -> None:
    async with make_pool(1) as pool:
        pid = await pool.run(os.getpid)
        (worker,) = pool.statistics().workers
        assert (worker.pid, worker.kind) == (pid, "call")


async def test_idle_workers_end(make_pool: MakePool, machine: Machine) -> None:
    async with make_pool(1, idle_timeout=0.1) as pool:
        pid = await pool.run(os.getpid)
        await await_until(lambda: not machine.is_alive(pid) and not pool.statistics().workers)
        assert await pool.run(os.getpid) != pid


async def test_worn_workers_are_replaced(make_pool: MakePool) -> None:
    async with make_pool(1, turns_per_worker=5) as pool:
        pids = [await pool.run(os.getpid) for _ in range(15)]
        assert [len(set(pids[at : at + 5])) for at in (0, 5, 10)] == [1, 1, 1]
        assert len(set(pids)) == 3
