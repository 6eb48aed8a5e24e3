from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.errors import WorkerDied
from tests.core import functions
from tests.helpers import await_until, written

pytestmark = pytest.mark.anyio
both_kinds = pytest.mark.parametrize(
    "count", [functions.count_state, functions.count_state_async], ids=["call", "host"]
)


@both_kinds
async def test_turns_share_a_state_in_one_process(count: Any) -> None:
    async with Pool(3) as pool:
        sessions = [pool.session(str(at)) for at in range(6)]
        turns = [[session.submit(count) for _ in range(5)] for session in sessions]
        assert [[await turn for turn in some] for some in turns] == [[1, 2, 3, 4, 5]] * 6


async def test_turns_of_a_session_run_in_one_process() -> None:
    async with Pool(3) as pool:
        session = pool.session()
        pids = {await session.run(os.getpid) for _ in range(5)}
        turns = [session.submit(os.getpid) for _ in range(20)]
        assert {*pids, *[await turn for turn in turns]} == pids
        assert len(pids) == 1


@pytest.mark.parametrize("overlap", [functions.overlap, functions.overlap_async])
async def test_they_never_overlap_and_sessions_do(tmp_path: Path, overlap: Any) -> None:
    async with Pool(2) as pool:
        folders = [tmp_path / str(at) for at in range(5)]
        for folder in folders:
            folder.mkdir()
        sessions = [pool.session() for _ in folders]
        turns = [
            session.submit(overlap, str(folder))
            for _ in range(4)
            for session, folder in zip(sessions, folders, strict=True)
        ]
        assert {await turn for turn in turns} == {1}
        assert pool.statistics().widest > 1


async def test_they_run_in_the_order_of_submission(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        session = pool.session()
        path = str(tmp_path / "order")
        for turn in [session.submit(functions.note, path, str(at)) for at in range(30)]:
            await turn
        assert written(tmp_path / "order").split() == [str(at) for at in range(30)]


async def test_a_lost_worker_loses_the_state_and_is_counted() -> None:
    async with Pool(2) as pool:
        session = pool.session("lossy")
        assert [await session.run(functions.count_state) for _ in range(2)] == [1, 2]
        turns = [session.submit(functions.die), session.submit(functions.count_state)]
        with pytest.raises(WorkerDied):
            await turns[0]
        assert await turns[1] == 1
        assert session.restarts == 1
        assert repr(session) == "<Session 'lossy' restarts=1>"


async def test_a_failed_turn_keeps_the_state() -> None:
    async with Pool(1) as pool:
        session = pool.session()
        await session.run(functions.count_state)
        with pytest.raises(ValueError, match="v"):
            await session.run(functions.fail, ValueError("v"))
        assert await session.run(functions.count_state) == 2
        assert session.restarts == 0
        assert repr(session) == "<Session restarts=0>"


async def test_a_cancelled_turn_takes_the_worker_with_it(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        session = pool.session()
        await session.run(functions.count_state)
        hanging = session.submit(functions.note_and_hang, str(tmp_path / "pid"))
        after = session.submit(functions.count_state)
        await await_until(lambda: written(tmp_path / "pid"))
        assert hanging.cancel()
        assert await after == 1
        assert session.restarts == 1


async def test_a_queued_turn_that_is_cancelled_is_passed_over(tmp_path: Path) -> None:
    async with Pool(1) as pool:
        session = pool.session()
        first = session.submit(functions.wait_for, str(tmp_path / "go"))
        middle = session.submit(functions.count_state)
        last = session.submit(functions.count_state)
        await await_until(first.running)
        assert middle.cancel()
        (tmp_path / "go").touch()
        assert await last == 1


async def test_a_session_that_is_gone_is_forgotten() -> None:
    async with Pool(1) as pool:
        session = pool.session()
        await session.run(functions.count_state)
        worker = next(iter(pool._entered().policy.roster.workers.values()))
        assert worker.sessions == 1
        del session
        gc.collect()
        await pool.run(len, "")
        assert worker.sessions == 0


async def test_sessions_under_options(tmp_path: Path) -> None:
    async with Pool(2) as pool:
        caller = pool.options(at_once=1, item_id="i")
        where = str(tmp_path)
        turns = [caller.session().submit(functions.overlap, where) for _ in range(6)]
        assert {await turn for turn in turns} == {1}
        assert {turn.item_id for turn in turns} == {"i"}


async def test_an_unused_session_costs_nothing() -> None:
    async with Pool(1) as pool:
        sessions = [pool.session() for _ in range(10_000)]
        assert pool.statistics().workers == []
        assert await sessions[77].run(functions.count_state) == 1


async def test_a_session_costs_next_to_nothing_until_its_first_turn() -> None:
    many = 10_000
    async with Pool(1) as pool:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            sessions = [pool.session() for _ in range(many)]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / many < 100
        assert not any(map(gc.is_tracked, sessions))  # the collector does not look at a million
        assert pool.statistics().workers == []
        assert await sessions[-1].run(functions.count_state) == 1
