"""The engine over a real scheduler and real Dask workers, which are killed and come."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from hmz_mp import Pool
from hmz_mp.errors import BadInput, WorkerDied, WorkerStartFailed
from tests.contract.cluster import LoopbackCluster
from tests.core import functions
from tests.helpers import await_until, is_alive, run_script, wait_until, written

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    made = LoopbackCluster(tmp_path)
    try:
        yield made
    finally:
        made.close()


def nap(path: str, at: int) -> int:
    """Note that it ran, where, and take a moment."""
    functions.note(path, f"{at} {os.getpid()} {os.getppid()}")
    time.sleep(0.01)
    return at


def ran_on(path: Path) -> set[str]:
    """Return the zygotes, one for each Dask worker, whose workers ran something."""
    return {line.split()[2] for line in written(path).splitlines()}


async def test_a_killed_dask_worker_loses_nothing(cluster: LoopbackCluster, tmp_path: Path) -> None:
    first = cluster.add_worker(1)
    cluster.add_worker(1)
    cluster.wait_for_workers(2)
    path = tmp_path / "ran"
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        assert pool.width == 2
        turns = [pool.options(retries=1).submit(nap, str(path), at) for at in range(200)]
        await await_until(lambda: len(ran_on(path)) == 2)
        first.kill()
        async with asyncio.timeout(30):
            assert await asyncio.gather(*turns) == list(range(200))
        pids = {int(line.split()[1]) for line in written(path).splitlines()}
        await await_until(lambda: sum(map(is_alive, pids)) == 1)


async def test_a_killed_dask_worker_is_blamed_for_what_ran_alone(
    cluster: LoopbackCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    path = tmp_path / "pid"
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        turn = pool.options(item_id="the one").submit(functions.note_and_hang, str(path))
        behind = [pool.submit(functions.identity, at) for at in range(20)]
        await await_until(lambda: written(path))
        cluster.workers[0].kill()
        with pytest.raises(WorkerDied, match="the one") as caught:
            await turn
        assert "the Dask worker tcp://127.0.0.1" in str(caught.value)
        assert caught.value.pid == int(written(path))
        await await_until(lambda: not is_alive(int(written(path))))
        assert not behind[0].done()  # there is no worker, and it waits for one
        await await_until(lambda: caplog.records)
        cluster.add_worker(1)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*behind) == list(range(20))
    assert [record.getMessage() for record in caplog.records if record.name == "hmz_mp"] == [
        f"no Dask worker at {cluster.address} can be used now: turns wait for one",
        "1 Dask worker is there again: turns go on",
    ]


def test_the_command_line_says_that_turns_wait(cluster: LoopbackCluster, tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "one.py").write_text("x = 1\n")
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "hmz_mp", "exec", "--include", "*.py"),
            *("-a", "tool/hmz_mp.toolbox.python:outline", "--engine", f"dask://{cluster.address}"),
        ],
        cwd=tmp_path / "items",
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = [next(process.stderr)]
            cluster.add_worker(1)
            said += process.stderr
        finally:
            process.kill()
    assert said[0].endswith("can be used now: turns wait for one\n")
    assert "1 Dask worker is there: turns go on\n" in said
    assert "1 ok" in "".join(said)


async def test_a_worker_below_a_nanny_is_replaced_when_it_is_killed(
    cluster: LoopbackCluster,
) -> None:
    nanny = cluster.add_worker(1, nanny=True)
    cluster.wait_for_workers(1)
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        ours = psutil.Process(await pool.run(os.getpid))
        above = [one.pid for one in ours.parents()]
        assert nanny.pid in above
        worker = above[above.index(nanny.pid) - 1]
        os.kill(worker, signal.SIGKILL)
        await await_until(lambda: not is_alive(ours.pid))
        async with asyncio.timeout(30):
            assert await pool.options(retries=1).run(os.getpid) != ours.pid
    nanny.terminate()
    nanny.wait(20)


async def test_a_dask_worker_that_is_told_to_end_takes_its_calls_along(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    worker = cluster.add_worker(1)
    cluster.wait_for_workers(1)
    path = tmp_path / "pid"
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        turn = pool.submit(functions.note_and_hang, str(path))
        await await_until(lambda: written(path))
        worker.terminate()
        async with asyncio.timeout(30):
            with pytest.raises(WorkerDied):
                await turn
        await await_until(lambda: worker.poll() is not None and not is_alive(int(written(path))))


async def test_a_session_goes_on_elsewhere(cluster: LoopbackCluster) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        session = pool.session()
        assert [await session.run(functions.count_state) for _ in range(2)] == [1, 2]
        cluster.workers[0].kill()
        await await_until(lambda: not pool.statistics().workers)
        cluster.add_worker(1)
        async with asyncio.timeout(30):
            assert await session.run(functions.count_state) == 1
        assert session.restarts == 1


async def test_workers_that_come_in_mid_run_are_used(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    path = tmp_path / "ran"
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        results = pool.map(nap, iter(lambda: str(path), None), iter(int, 1), at_once=30)
        count = 0
        async for _ in results:
            count += 1
            if count == 10:
                cluster.add_worker(1)
                cluster.add_worker(1)
            if len(ran_on(path)) == 3:
                break
            assert count < 5000
        assert sum(one.state == "ready" for one in pool.statistics().workers) == 3


async def test_a_lost_scheduler_ends_the_run_with_every_item_named(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    path = tmp_path / "pid"
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        assert await pool.run(len, "ab") == 2
        turns = {
            f"item {at}": pool.options(item_id=f"item {at}").submit(
                functions.note_and_hang, str(path)
            )
            for at in range(20)
        }
        await await_until(lambda: written(path))
        cluster.scheduler.kill()
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*turns.values(), return_exceptions=True)
        assert all(isinstance(one, WorkerDied) for one in ended)
        lost = [one for one in ended if isinstance(one, WorkerStartFailed)]
        assert len(lost) >= 19
        assert f"the Dask scheduler at {cluster.address} is lost" in str(lost[0])
        assert [turn.item_id for turn in turns.values()] == list(turns)
        with pytest.raises(WorkerStartFailed, match="is lost"):
            await pool.run(len, "later")
        await await_until(lambda: not is_alive(int(written(path).split()[0])))


COORDINATOR = """
import anyio, sys
from hmz_mp import Pool
from tests.core import functions

async def main():
    async with Pool(engine=sys.argv[1]) as pool:
        await pool.run(functions.note_and_hang, sys.argv[2])

anyio.run(main)
"""


def test_nothing_is_left_of_a_coordinator_that_was_killed(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    path = tmp_path / "pid"
    (tmp_path / "script.py").write_text(COORDINATOR)
    root = str(Path(__file__).parents[3])
    coordinator = subprocess.Popen(
        [sys.executable, "script.py", f"dask://{cluster.address}", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        wait_until(lambda: written(path), 30)
    finally:
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
    wait_until(lambda: not is_alive(int(written(path))))
    assert cluster.workers[0].poll() is None


SCRIPT = """
import anyio, sys
from dataclasses import dataclass
from hmz_mp import Pool

@dataclass
class Point:
    x: int

def double(point):
    return Point(2 * point.x)

async def main():
    async with Pool(engine=sys.argv[1]) as pool:
        print(await pool.run(double, Point(4)) == Point(8))

anyio.run(main)
"""


def test_what_a_script_defines_goes_there_and_back(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    ran = run_script(tmp_path, SCRIPT, f"dask://{cluster.address}")
    assert ran.stdout == "True\n", ran.stderr


async def test_a_working_directory_that_is_not_there(
    cluster: LoopbackCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_worker(1)
    cluster.wait_for_workers(1)
    pool = Pool(engine=f"dask://{cluster.address}", cwd="/no/such/folder")
    with pytest.raises(BadInput, match=r"the Dask worker tcp://.* cannot see .*/no/such/folder"):
        await pool.__aenter__()


async def test_fewer_workers_than_there_are_threads(cluster: LoopbackCluster) -> None:
    cluster.add_worker(2)
    cluster.wait_for_workers(1)
    async with Pool(1, engine=f"dask://{cluster.address}") as pool:
        assert len({await pool.run(os.getpid) for _ in range(10)}) == 1
        assert pool.width == 1


def _nothing(at: int) -> int:
    return at


async def test_calls_of_nothing_are_ten_times_as_many_as_dasks_own(
    cluster: LoopbackCluster,
) -> None:
    from distributed import Client

    cluster.add_worker(1)
    cluster.add_worker(1)
    cluster.wait_for_workers(2)
    engine = f"dask://{cluster.address}"
    async with Client(cluster.address, asynchronous=True) as client, Pool(engine=engine) as pool:

        async def ours(count: int) -> float:
            began = time.perf_counter()
            turns = [pool.submit(_nothing, at) for at in range(count)]
            assert await asyncio.gather(*turns) == list(range(count))
            return count / (time.perf_counter() - began)

        async def theirs(count: int) -> float:
            began = time.perf_counter()
            futures = client.map(_nothing, range(count), pure=False)
            assert await client.gather(futures) == list(range(count))
            return count / (time.perf_counter() - began)

        await ours(1000), await theirs(100)
        ratios = [await ours(10_000) / await theirs(500) for _ in range(3)]
        assert max(ratios) >= 10, ratios
