"""Large arguments and functions on a real cluster: what is sent of them, counted."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from hmz_mp import Pool
from hmz_mp.engines.dask import kept
from hmz_mp.engines.dask.stream import Stream
from hmz_mp.errors import WorkerDied
from hmz_mp_worker.framing import Buffer
from tests.contract.cluster import LoopbackCluster
from tests.core import functions
from tests.helpers import await_until, is_alive, written

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MIB = 1 << 20


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """Return a cluster of two Dask workers with two threads each."""
    made = LoopbackCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker()
        made.add_worker()
        made.wait_for_workers(2)
        yield made
    finally:
        made.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the large buffers that this process sends to Dask workers."""
    sizes: list[int] = []
    send = Stream.send

    def counted(self: Stream[Any], message: Any, buffers: Sequence[Buffer] = ()) -> None:
        sizes.extend(len(one) for one in buffers if len(one) >= MIB)
        send(self, message, buffers)

    monkeypatch.setattr(Stream, "send", counted)
    return sizes


def digest(value: bytes | bytearray, at: int = 0) -> tuple[int, str, int]:
    """Return what was called with, and the zygote above, of which each Dask worker has one."""
    time.sleep(0.01)
    return at, hashlib.sha256(value).hexdigest(), os.getppid()


def spoil(value: bytearray) -> tuple[str, int]:
    """Return what came, and change it."""
    came = hashlib.sha256(value).hexdigest()
    value[:] = bytes(len(value))
    return came, os.getpid()


def hang(value: bytes, path: str) -> None:
    functions.note_and_hang(path)


async def test_one_value_is_sent_once_to_each_dask_worker(
    cluster: LoopbackCluster, sent: list[int]
) -> None:
    value = os.urandom(3 * MIB)
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        turns = [pool.submit(digest, bytes(bytearray(value)), at) for at in range(60)]
        answers = await asyncio.gather(*turns)
    expected = hashlib.sha256(value).hexdigest()
    assert [answer[:2] for answer in answers] == [(at, expected) for at in range(60)]
    assert len({zygote for _, _, zygote in answers}) == 2
    assert sent == [3 * MIB] * 2


async def test_other_values_arrive_as_they_are(cluster: LoopbackCluster, sent: list[int]) -> None:
    values = [os.urandom(MIB + at) for at in range(80)]
    # One at a time: what is sent behind a call that takes long comes back, and is sent again.
    async with Pool(at_once=1, engine=f"dask://{cluster.address}") as pool:
        answers = await asyncio.gather(*(pool.submit(digest, value) for value in values))
    assert [found for _, found, _ in answers] == [hashlib.sha256(one).hexdigest() for one in values]
    assert sorted(sent) == [len(value) for value in values]


async def test_values_over_the_bound_come_again(
    cluster: LoopbackCluster, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "ROOM", 4 * MIB)
    values = [os.urandom(MIB) for _ in range(6)]
    async with Pool(1, engine=f"dask://{cluster.address}") as pool:  # so in one Dask worker
        answers = await asyncio.gather(*(pool.submit(digest, value) for value in values * 10))
    assert [found for _, found, _ in answers] == [
        hashlib.sha256(one).hexdigest() for one in values
    ] * 10
    assert len(sent) > 12


async def test_what_a_call_changes_the_next_one_does_not_see(
    cluster: LoopbackCluster, sent: list[int]
) -> None:
    value = bytearray(os.urandom(2 * MIB))
    expected = hashlib.sha256(value).hexdigest()
    async with Pool(1, engine=f"dask://{cluster.address}") as pool:
        for _ in range(3):
            came = await asyncio.gather(*(pool.submit(spoil, value) for _ in range(3)))
            assert {found for found, _ in came} == {expected}
            assert (await pool.run(digest, bytes(value)))[1] == expected
    assert sent == [2 * MIB]


async def test_a_large_function_is_sent_once_to_each_dask_worker(
    cluster: LoopbackCluster, sent: list[int]
) -> None:
    value = os.urandom(2 * MIB)
    function = partial(digest, value)
    async with Pool(engine=f"dask://{cluster.address}") as pool:
        answers = await asyncio.gather(*(pool.submit(function, at) for at in range(60)))
        workers = [one for one in pool.statistics().workers if one.turns]
    expected = hashlib.sha256(value).hexdigest()
    assert [answer[:2] for answer in answers] == [(at, expected) for at in range(60)]
    assert len(workers) == 4
    assert len(sent) == 2


async def test_a_cancelled_call_leaves_what_is_kept(
    cluster: LoopbackCluster, sent: list[int], tmp_path: Path
) -> None:
    value, path = os.urandom(2 * MIB), tmp_path / "pid"
    async with Pool(1, engine=f"dask://{cluster.address}") as pool:
        turn = pool.submit(hang, value, str(path))
        behind = [pool.submit(digest, value, at) for at in range(3)]
        await await_until(lambda: written(path))
        assert turn.cancel()
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*behind)
        await await_until(lambda: not is_alive(int(written(path))))
    assert {found for _, found, _ in answers} == {hashlib.sha256(value).hexdigest()}
    assert len(sent) <= 2  # its worker's successor may be another Dask worker's


async def test_a_dask_worker_that_comes_gets_it_anew(tmp_path: Path, sent: list[int]) -> None:
    value = os.urandom(2 * MIB)
    expected = hashlib.sha256(value).hexdigest()
    cluster = LoopbackCluster(tmp_path)
    try:
        cluster.add_worker(1)
        cluster.wait_for_workers(1)
        async with Pool(engine=f"dask://{cluster.address}") as pool:
            for _ in range(2):
                assert (await pool.run(digest, value))[1] == expected
            assert len(sent) == 1
            turn = pool.submit(hang, value, str(tmp_path / "pid"))
            behind = [pool.submit(digest, value) for _ in range(3)]
            await await_until(lambda: written(tmp_path / "pid"))
            cluster.workers[0].kill()
            with pytest.raises(WorkerDied):
                await turn
            cluster.add_worker(1)
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*behind)
            assert {found for _, found, _ in answers} == {expected}
            assert len(sent) == 2
    finally:
        cluster.close()
