"""Memory: turns that take too much, workers that keep too much, a machine that is short."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import anyio
import psutil
import pytest

from hmz_mp import Pool
from hmz_mp.agents import agent_from_spec
from hmz_mp.core import watch
from hmz_mp.core.machine import MachineMemory, machine_memory
from hmz_mp.errors import MemoryExceeded
from tests.fakes.programs import fake_claude
from tests.faults.shipped import double, pid, wait_for
from tests.helpers import await_until, written

pytestmark = pytest.mark.anyio

MIB = 1 << 20


def take(size: int) -> None:
    held = bytearray(size)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(20)


def take_in_child(size: int) -> None:
    import subprocess
    import sys

    code = f"import time; held = bytearray({size}); held[::4096] = b'x' * len(held[::4096]); "
    subprocess.run([sys.executable, "-S", "-c", code + "time.sleep(20)"], check=True)


async def _looks(seen: watch.Watch, times: int = 3) -> None:
    """Return when a pool's workers and the machine have been looked at so many times."""
    count = 0
    look = seen._look_at_idle

    def counted() -> None:
        nonlocal count
        look()
        count += 1

    seen._look_at_idle = counted  # type: ignore[method-assign]  # what is waited for
    await await_until(lambda: count >= times)
    seen._look_at_idle = look  # type: ignore[method-assign]  # as it was


@pytest.mark.parametrize("call", [take, take_in_child], ids=["itself", "a child"])
async def test_a_turn_over_its_limit_is_ended_and_blamed(call: object) -> None:
    assert callable(call)
    async with Pool(1) as pool:
        guilty = pool.options(memory=100 * MIB).submit(call, 300 * MIB)
        behind = pool.submit(double, 2)
        with pytest.raises(MemoryExceeded) as caught:
            await guilty
        assert caught.value.limit == 100 * MIB
        assert caught.value.used > 100 * MIB
        assert await behind == 4


async def test_an_async_turn_over_its_limit_is_ended_among_others_in_its_process(
    tmp_path: Path,
) -> None:
    async def wait(path: str) -> int:
        await await_until(lambda: Path(path).exists())
        return os.getpid()

    async def take_and_wait(size: int) -> None:
        held = bytearray(size)
        held[::4096] = b"x" * len(held[::4096])
        await asyncio.sleep(60)

    path = tmp_path / "go"
    async with Pool(1) as pool:
        others = [pool.submit(wait, str(path))]
        others += [pool.options(memory=200 * MIB).submit(wait, str(path)) for _ in range(3)]
        with pytest.raises(MemoryExceeded) as caught:
            await pool.options(memory=200 * MIB).run(take_and_wait, 300 * MIB)
        assert caught.value.used > 200 * MIB
        path.touch()
        assert len(set(await asyncio.gather(*others))) == 1


async def test_an_idle_worker_that_keeps_too_much_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_IDLE_LEAST", 100 * MIB)
    monkeypatch.setattr(watch, "_BUSY", 0.05)
    monkeypatch.setattr(watch, "_IDLE", 0.05)

    def keep(size: int) -> int:
        kept = bytearray(size)
        kept[::4096] = b"x" * len(kept[::4096])
        os.kept = kept  # type: ignore[attr-defined]  # somewhere that lasts
        return os.getpid()

    async with Pool(2) as pool:
        coordinator = pool._coordinator
        assert coordinator is not None
        coordinator.watch.idle_bound = 100 * MIB
        modest, greedy = await pool.run(keep, MIB), await pool.run(keep, 200 * MIB)
        await await_until(lambda: not psutil.pid_exists(greedy))
        assert await pool.run(pid) != greedy
        assert pool.statistics().failed == 0
        session = pool.session()
        holder = await session.run(keep, 200 * MIB)
        await _looks(coordinator.watch)
        assert await session.run(pid) == holder  # a session's state is not thrown away
        assert modest


async def test_new_turns_wait_while_the_machine_is_short(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BUSY", 0.02)
    available = 1
    async with Pool(3) as pool:
        coordinator = pool._coordinator
        assert coordinator is not None

        def memory(*_: object) -> MachineMemory:
            return MachineMemory(100 * MIB, available * MIB)

        coordinator.watch.memory = memory
        with caplog.at_level(logging.WARNING, "hmz_mp"):
            paths = [tmp_path / str(n) for n in range(6)]
            turns = [pool.submit(wait_for, str(path)) for path in paths[:1]]
            await await_until(lambda: written(tmp_path / "0.begun"))
            await await_until(lambda: coordinator.policy.held)
            turns += [pool.submit(wait_for, str(path)) for path in paths[1:]]
            assert "memory is short" in caplog.text
            await _looks(coordinator.watch)
            assert pool.statistics().running == 1  # but one goes on, or nothing ever would end
            for path in paths[:2]:
                path.touch()
            await turns[0]
            await turns[1]
            assert pool.statistics().running <= 1
            available = 90
            await await_until(lambda: pool.statistics().running == 3)
            assert "memory is available again" in caplog.text
            for path in paths:
                path.touch()
            await asyncio.gather(*turns)


async def test_agent_programs_that_memory_does_not_bear_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BUSY", 0.02)
    monkeypatch.setattr(watch, "_PROGRAMS", 0.0)
    available = 512  # of which all is to stay so
    agent = agent_from_spec(f"cli=claude,model=opus,program={fake_claude(tmp_path)}")
    async with Pool(1) as pool:
        coordinator = pool._coordinator
        assert coordinator is not None
        coordinator.watch.memory = lambda: MachineMemory(10 << 30, available * MIB)

        def running() -> int:
            return pool.statistics().limits["agent programs"].used

        async with anyio.create_task_group() as tasks:
            with caplog.at_level(logging.WARNING, "hmz_mp"):
                tasks.start_soon(agent.abatch, ["sleep 0.4"] * 2 + ["sleep 1.0"] * 3)
                await await_until(lambda: "the memory bears no more agent programs" in caplog.text)
                assert running() == 1
                assert await pool.run(abs, -1) == 1  # that needs none
                available = 4096
                await await_until(lambda: running() > 2)
        assert caplog.text.count("bears no more") == 1
        assert pool.statistics().limits["agent programs"].used == 0


def test_the_memory_of_a_machine_and_of_a_cgroup(tmp_path: Path) -> None:
    here = machine_memory()
    assert 0 < here.available <= here.total
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    found = machine_memory(root, proc)
    assert (found.total, found.available) == (8_000_000 << 10, 4_000_000 << 10)
    (root / "a" / "memory.max").write_text(f"{1000 * MIB}\n")
    (root / "a" / "memory.current").write_text(f"{970 * MIB}\n")
    (root / "a" / "memory.stat").write_text(f"anon 5\ninactive_file {10 * MIB}\n")
    found = machine_memory(root, proc)
    assert (found.total, found.available) == (1000 * MIB, 40 * MIB)
    assert found.is_short()
    assert not machine_memory(tmp_path / "none", proc).is_short()


async def test_workers_are_replaced_after_their_turns_without_a_deadlock() -> None:
    async with Pool(1, turns_per_worker=2) as pool:
        turns = [pool.submit(pid) for _ in range(10)]
        pids = await asyncio.gather(*turns)
        assert len(set(pids)) == 5
        failing = [pool.submit(int, "x" if n % 3 else "1") for n in range(10)]
        ended = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(one) for one in ended] == [ValueError if n % 3 else int for n in range(10)]
    async with Pool(1, turns_per_worker=1) as pool:
        large = [pool.submit(bytes, 20_000) for _ in range(20)]
        assert await asyncio.gather(*large) == [bytes(20_000)] * 20
        pool.submit(double, 1)  # left while it recycles


async def test_a_map_over_much_holds_only_its_window() -> None:
    async with Pool(2) as pool:
        process = psutil.Process()
        before = process.memory_info().rss
        answers = pool.map(double, (n for n in range(200_000)))
        began = time.monotonic()
        assert await anext(answers) == 0
        assert time.monotonic() - began < 5
        count = 1
        async for _ in answers:
            count += 1
        assert count == 200_000
        assert process.memory_info().rss < before + 100 * MIB


async def test_fifty_thousand_submissions_in_one_tick() -> None:
    async with Pool(2) as pool:
        turns = [pool.submit(double, n) for n in range(50_000)]
        assert sum(await asyncio.gather(*turns)) == 49_999 * 50_000
