"""What an engine may report at any time, and no real one does when a test wants it: over a fake."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hmz_mp import Pool
from hmz_mp.core.turns import Turn
from hmz_mp.errors import InitializerFailed, TurnTimeout, WorkerDied, WorkerStartFailed
from tests.contract.conftest import FAKE, FakeMachine, Machine, MakePool
from tests.core import functions
from tests.fakes.engine import FakeEngine, StartFault
from tests.helpers import written

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def engine() -> str:
    """Return the fake's name."""
    return FAKE


def engine_of(machine: Machine) -> FakeEngine:
    """Return the engine of the pool that was entered last."""
    assert isinstance(machine, FakeMachine)
    return machine.engines[-1]


def running(machine: Machine) -> list[int]:
    """Return the workers that run something, in the order in which they were started."""
    return [one.number for one in engine_of(machine).workers.values() if one.running]


async def lengthy(pool: Pool, tmp_path: Path, count: int) -> list[Turn]:
    """Submit calls that take until there is a file; return them once those run that can."""
    turns = [pool.submit(functions.wait_for, str(tmp_path / "go"), at) for at in range(count)]
    await anyio.sleep(1)
    return turns


async def known_to_be_short(pool: Pool) -> None:
    """Have calls of `functions.identity` be shipped ahead."""
    for _ in range(5):
        await pool.run(functions.identity, 0)


# Capacity.


async def test_what_is_added_in_mid_run_is_used(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(4) as pool:
        engine_of(machine).set_capacity(1)
        turns = await lengthy(pool, tmp_path, 8)
        assert len(running(machine)) == 1
        engine_of(machine).set_capacity(3)
        await anyio.sleep(1)
        assert len(running(machine)) == 3
        (tmp_path / "go").touch()
        assert [await turn for turn in turns] == [*range(8)]


async def test_what_is_taken_away_in_mid_run_is_replaced_by_nothing(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(3) as pool:
        again = pool.options(retries=1)
        turns = [again.submit(functions.wait_for, str(tmp_path / "go"), at) for at in range(8)]
        await anyio.sleep(1)
        first, second, third = running(machine)
        engine_of(machine).set_capacity(1)
        engine_of(machine).lose(first)
        engine_of(machine).lose(third)
        await anyio.sleep(1)
        assert running(machine) == [second]
        (tmp_path / "go").touch()
        assert [await turn for turn in turns] == [*range(8)]


async def test_without_any_capacity_all_waits_for_some(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(2) as pool:
        engine_of(machine).set_capacity(0)
        turns = [pool.submit(functions.identity, at) for at in range(3)]
        await anyio.sleep(60)
        assert not engine_of(machine).workers
        engine_of(machine).set_capacity(2)
        assert [await turn for turn in turns] == [0, 1, 2]


# The end of the engine, of machines, of workers.


async def test_an_engines_failure_names_every_turn_that_had_not_ended(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(2) as pool:
        answered = [pool.submit(functions.identity, at) for at in range(5)]
        assert [await turn for turn in answered] == [*range(5)]
        turns = await lengthy(pool, tmp_path, 5)
        session = pool.session()
        turns += [session.submit(functions.count_state) for _ in range(2)]
        engine_of(machine).fail("the cluster is gone", "its last words")
        for turn in turns:
            with pytest.raises(WorkerStartFailed, match="the cluster is gone") as caught:
                await turn
            assert caught.value.stderr_tail == "its last words"
        with pytest.raises(WorkerStartFailed, match="the cluster is gone"):
            await pool.run(functions.identity, 0)
        assert [turn.result() for turn in answered] == [*range(5)]


async def test_of_a_lost_worker_the_oldest_call_is_blamed(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    """What it had answered and not sent is lost too; all but the oldest run again elsewhere."""
    async with make_pool(1) as pool:
        await pool.run(functions.note, str(tmp_path / "ran"), "warm")
        engine_of(machine).back_seconds = 0.01
        turns = [pool.submit(functions.note, str(tmp_path / "ran"), str(at)) for at in range(5)]
        await anyio.sleep(0.005)
        assert written(tmp_path / "ran").split() == ["warm", *"01234"]
        (worker,) = engine_of(machine).workers
        engine_of(machine).lose(worker)
        with pytest.raises(WorkerDied, match="was lost"):
            await turns[0]
        for turn in turns[1:]:
            await turn
    assert written(tmp_path / "ran").split() == ["warm", *"01234", *"1234"]


async def test_what_a_worker_answered_before_its_end_counts(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(1) as pool:
        await known_to_be_short(pool)
        engine_of(machine).back_seconds = 0.01
        turns = [pool.submit(functions.identity, at) for at in range(5)]
        await anyio.sleep(0.005)
        (worker,) = engine_of(machine).workers
        engine_of(machine).die(worker)
        assert [await turn for turn in turns] == [*range(5)]


async def test_a_call_that_no_worker_lives_to_begin_is_not_tried_for_ever(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(1) as pool:
        engine_of(machine).there_seconds = 1.0  # so none begins
        turn = pool.submit(functions.identity, 0)
        for _ in range(3):
            await anyio.sleep(0.5)
            (worker,) = engine_of(machine).workers
            engine_of(machine).die(worker)
        with pytest.raises(WorkerDied):
            await turn


# Starting.


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("refused", WorkerStartFailed, "refused"),
        ("initializer", InitializerFailed, "the initializer raised"),
        ("exit", WorkerStartFailed, "3 ended before they were set up.*status 3"),
        ("no start", WorkerStartFailed, "no descriptor is left"),
        ("hang", InitializerFailed, "not set up within 30 s"),
    ],
)
async def test_workers_of_which_none_can_be_started(
    make_pool: MakePool,
    machine: Machine,
    fault: StartFault,
    error: type[WorkerStartFailed],
    words: str,
) -> None:
    async with make_pool(2, start_timeout=30) as pool:
        engine_of(machine).start_faults.extend([fault] * 20)
        turns = [pool.submit(functions.identity, at) for at in range(5)]
        for turn in turns:
            with pytest.raises(error, match=words):
                await turn
        with pytest.raises(error, match=words):
            await pool.run(functions.identity, 0)


@pytest.mark.parametrize("fault", ["exit", "no start", "hang"])
async def test_those_that_were_started_do_what_others_cannot(
    make_pool: MakePool, machine: Machine, fault: StartFault, tmp_path: Path
) -> None:
    async with make_pool(3, start_timeout=30) as pool:
        turns = await lengthy(pool, tmp_path, 1)
        engine_of(machine).start_faults.extend([fault] * 20)
        turns += await lengthy(pool, tmp_path, 5)
        assert len(running(machine)) == 1
        (tmp_path / "go").touch()
        assert [await turn for turn in turns] == [0, *range(5)]


# Races with what is on its way.


async def test_a_kill_that_comes_too_late_ends_nothing_else(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(1) as pool:
        await known_to_be_short(pool)
        (worker,) = engine_of(machine).workers
        engine_of(machine).call_seconds = 0.001
        engine_of(machine).kill_seconds = 0.0015
        turns = [pool.submit(functions.identity, at) for at in range(5)]
        await anyio.lowlevel.checkpoint()
        assert turns[0].cancel()
        assert [await turn for turn in turns[1:]] == [1, 2, 3, 4]
        assert list(engine_of(machine).workers) == [worker]
        assert engine_of(machine).missed == 1


async def test_a_session_goes_on_where_a_kill_came_too_late(
    make_pool: MakePool, machine: Machine
) -> None:
    """It waits while its worker is to be killed, and all else there has ended before it is not."""
    async with make_pool(1) as pool:
        await known_to_be_short(pool)
        session = pool.session()
        assert await session.run(functions.count_state) == 1
        engine_of(machine).back_seconds = 0.001
        engine_of(machine).kill_seconds = engine_of(machine).reap_seconds = 0.01
        turn = pool.submit(functions.identity, 1)
        await anyio.lowlevel.checkpoint()
        assert turn.cancel()
        with anyio.fail_after(1):
            assert await session.run(functions.count_state) == 2
        assert engine_of(machine).missed == 1


async def test_a_cancelled_turn_has_no_answer_though_one_was_on_its_way(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(1) as pool:
        await known_to_be_short(pool)
        engine_of(machine).back_seconds = 0.01
        turn = pool.submit(functions.identity, 1)
        await anyio.sleep(0.005)
        assert turn.cancel()
        assert turn.cancelled()
        assert await pool.run(functions.identity, 2) == 2
    assert turn.cancelled()


async def test_an_answer_that_was_on_its_way_counts_beside_a_timeout(
    make_pool: MakePool, machine: Machine
) -> None:
    async with make_pool(1) as pool:
        await known_to_be_short(pool)
        engine_of(machine).back_seconds = 0.4
        assert await pool.options(timeout=0.3).run(functions.identity, 1) == 1
        engine_of(machine).call_seconds = 0.4
        with pytest.raises(TurnTimeout):
            await pool.options(timeout=0.3).run(functions.identity, 1)


async def test_what_is_given_back_is_run_once(
    make_pool: MakePool, machine: Machine, tmp_path: Path
) -> None:
    async with make_pool(1) as pool:
        for _ in range(5):
            await pool.run(functions.note, str(tmp_path / "ran"), "warm")
        turns = [pool.submit(functions.note, str(tmp_path / "ran"), str(at)) for at in range(50)]
        await anyio.sleep(0.00001)
        for _ in range(5):
            (worker,) = engine_of(machine).workers
            engine_of(machine).give_back(worker)
            await anyio.sleep(0.00001)
        for turn in turns:
            await turn
        assert engine_of(machine).given_back > 100
    ran = [word for word in written(tmp_path / "ran").split() if word != "warm"]
    assert ran == [str(at) for at in range(50)]
