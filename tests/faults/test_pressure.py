"""Workers that do not read, or die while they are written to; descriptors and room that run out."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.errors import WorkerDied
from tests.faults.shipped import double, pid, wait_for
from tests.helpers import await_until, run_script, written

pytestmark = pytest.mark.anyio

MIB = 1 << 20


def length(data: bytes) -> int:
    return len(data)


async def test_a_worker_that_is_killed_while_it_is_written_to() -> None:
    data = bytes(50 * MIB)
    async with Pool(1) as pool:
        for delay in (0.0, 0.001, 0.005, 0.02):
            worker = await pool.run(pid)
            turn = pool.submit(length, data)
            await asyncio.sleep(delay)
            os.kill(worker, signal.SIGKILL)
            (ended,) = await asyncio.gather(turn, return_exceptions=True)
            assert ended == len(data) or isinstance(ended, WorkerDied)
            assert await pool.run(double, 2) == 4


async def test_a_worker_that_is_killed_while_it_answers() -> None:
    """Its value is there whole, or its turn fails; nothing stays in memory that has a name."""
    named = set(os.listdir("/dev/shm")) if sys.platform == "linux" else set()
    async with Pool(1) as pool:
        for size in (MIB, 50 * MIB):
            for delay in (0.0, 0.001, 0.003, 0.01, 0.03):
                worker = await pool.run(pid)
                turn = pool.submit(bytes, size)
                await asyncio.sleep(delay)
                os.kill(worker, signal.SIGKILL)
                (ended,) = await asyncio.gather(turn, return_exceptions=True)
                assert ended == bytes(size) or isinstance(ended, WorkerDied)
    if sys.platform == "linux":
        left = set(os.listdir("/dev/shm")) - named
        assert not [name for name in left if "hmz" in name]


async def test_a_worker_that_stops_reading_does_not_fill_memory() -> None:
    """What waits for it stays where the caller made it, and is not copied into a buffer."""
    data = bytes(20 * MIB)
    async with Pool(1) as pool:
        worker = await pool.run(pid)
        process = psutil.Process()
        os.kill(worker, signal.SIGSTOP)
        before = process.memory_info().rss
        turns = [pool.submit(length, data) for _ in range(3)]
        small = [pool.submit(double, n) for n in range(1000)]
        for _ in range(20):
            await asyncio.sleep(0.01)  # the loop goes on
        connection = next(iter(pool._coordinator.engine._workers.values())).connection  # type: ignore[union-attr]  # it is entered
        assert connection.backlog <= 25 * MIB  # one call's, the others are not shipped
        assert process.memory_info().rss < before + 100 * MIB
        os.kill(worker, signal.SIGCONT)
        assert await asyncio.gather(*turns) == [len(data)] * 3
        assert await asyncio.gather(*small) == [2 * n for n in range(1000)]


async def test_a_turn_with_a_worker_that_was_stopped_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "go"
    async with Pool(1) as pool:
        turn = pool.submit(wait_for, str(path))
        await await_until(lambda: written(tmp_path / "go.begun"))
        os.kill(int((tmp_path / "go.begun").read_text()), signal.SIGSTOP)
        began = time.monotonic()
        turn.cancel()
        assert await pool.run(double, 2) == 4
        assert time.monotonic() - began < 6


FEW_DESCRIPTORS = """
import asyncio, logging, resource, sys
from hmz_mp import Pool
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

async def wait(n):
    await asyncio.sleep(0.05)
    return n

def double(n):
    return 2 * n

async def main():
    async with Pool(int(sys.argv[1])) as pool:
        turns = [pool.submit(double, n) for n in range(500)]
        turns += [pool.submit(wait, n) for n in range(200)]
        turns += [pool.submit(bytes, size) for size in (1_000_000, 10_000_000)]
        *answers, middle, large = await asyncio.gather(*turns)
        assert answers == [2 * n for n in range(500)] + list(range(200))
        assert (len(middle), len(large)) == (1_000_000, 10_000_000)
        print(len(pool.statistics().workers))

asyncio.run(main())
"""


@pytest.mark.parametrize("workers", [2, 40])
def test_more_turns_and_workers_than_descriptors(workers: int, tmp_path: Path) -> None:
    ran = run_script(tmp_path, FEW_DESCRIPTORS, str(workers))
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 2
    if workers == 40:
        assert "no more can be started" in ran.stderr
        assert "Too many open files" in ran.stderr


async def test_a_pool_that_cannot_be_entered_leaves_no_descriptor() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    said: list[str] = []
    for room in range(1, 12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_lowest_free() + room, hard))
        try:
            async with Pool(1) as pool:
                await pool.run(double, 2)
        except (OSError, WorkerDied) as error:
            said.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(os.listdir("/proc/self/fd")) == before
    assert said
    assert all("open files" in text for text in said)


def _lowest_free() -> int:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    return fd


LIMITED = """
import asyncio, resource, sys
which, value = getattr(resource, sys.argv[1]), int(sys.argv[2])
resource.setrlimit(which, (value, value))
from hmz_mp import Pool

async def main():
    async with Pool(2) as pool:
        for size in (100_000, 1_000_000, 10_000_000):
            assert await pool.run(len, b"x" * size) == size
            assert len(await pool.run(bytes, size)) == size

asyncio.run(main())
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold to these limits")
@pytest.mark.parametrize(("limit", "value"), [("RLIMIT_FSIZE", 2 << 20), ("RLIMIT_AS", 300 << 20)])
def test_limits_that_leave_no_room_for_shared_memory(
    limit: str, value: int, tmp_path: Path
) -> None:
    ran = run_script(tmp_path, LIMITED, limit, str(value))
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr


NO_ROOM = """
import asyncio, os, tempfile
from hmz_mp import Pool

async def main():
    async with Pool(2) as pool:
        assert await pool.run(len, b"x" * 10_000_000) == 10_000_000
        assert len(await pool.run(bytes, 10_000_000)) == 10_000_000
        turn = pool.submit(print, "hello")
        await turn
        assert turn.account.output == "hello\\n"

asyncio.run(main())
print("done")
"""


def test_a_temporary_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir(mode=0o500)
    ran = run_script(
        tmp_path, NO_ROOM, env={"TMPDIR": str(nowhere), "PYTHONDONTWRITEBYTECODE": "1"}
    )
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert list(nowhere.iterdir()) == []


needs_mounts = pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0
    if sys.platform == "linux"
    else True,
    reason="nothing can be mounted here",
)


@needs_mounts
@pytest.mark.parametrize(
    "mount",
    [
        "mount -t tmpfs -o size=4k none /dev/shm",
        "mount -t tmpfs -o ro none /dev/shm && mount -o remount,bind,ro /",
    ],
    ids=["no room in shared memory", "nothing can be written anywhere"],
)
def test_memory_and_folders_that_take_nothing(mount: str) -> None:
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" -', sys.executable],
        input=NO_ROOM,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
        cwd="/",
        env={**os.environ, "TMPDIR": "/proc", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (ran.stdout, ran.stderr) == ("done\n", "")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("gib", [2.5, 5])
@pytest.mark.skipif(
    psutil.virtual_memory().available < 16 << 30 or not os.environ.get("HMZ_MP_LARGE"),
    reason="takes 16 GiB of memory and a minute; set HMZ_MP_LARGE=1",
)
async def test_arguments_and_results_of_gibibytes(gib: float) -> None:
    size = int(gib * (1 << 30))
    async with Pool(1) as pool:
        data = bytes(size)
        assert await pool.run(length, data) == size
        del data
        answer = await pool.run(bytes, size)
        assert len(answer) == size
