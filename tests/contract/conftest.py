from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from hmz_mp import Pool
from hmz_mp.core.coordinator import Coordinator
from hmz_mp.core.loop import Driver
from hmz_mp.core.machine import MachineMemory
from hmz_mp.engines.choice import EngineOptions
from tests import helpers
from tests.contract.cluster import LoopbackCluster
from tests.contract.scripted import SCRIPT
from tests.fakes.engine import FakeEngine
from tests.fakes.virtual_time import VirtualClock, VirtualLoop, the_pools_clock

FAKE = "fake"


class MakePool(Protocol):
    """Makes a pool over the engine that a test is for."""

    def __call__(self, workers: int | None = None, **options: Any) -> Pool: ...


class Machine:
    """Where workers are, as a test sees them beside the pool."""

    def kill(self, pid: int) -> None:
        """Kill a worker."""
        os.kill(pid, signal.SIGKILL)

    def is_alive(self, pid: int) -> bool:
        """Whether a worker has not ended."""
        return helpers.is_alive(pid)

    def now(self) -> float:
        """Return the time of the pool's clock."""
        return time.monotonic()


class FakeMachine(Machine):
    """Where fake workers are. ``engines`` are those of the pools that were entered."""

    def __init__(self, clock: VirtualClock) -> None:
        self.engines: list[FakeEngine] = []
        self.clock = clock

    def make_engine(
        self, name: str, driver: Driver, events: Coordinator, options: EngineOptions
    ) -> FakeEngine:
        """Return a new engine, as `hmz_mp.engines.choice` does."""
        events.watch.memory = lambda: MachineMemory(64 << 30, 32 << 30)
        made = FakeEngine(driver, events, self.clock, SCRIPT, initializer=options.initializer)
        self.engines.append(made)
        return made

    def kill(self, pid: int) -> None:
        for engine in self.engines:
            for worker in [one.number for one in engine.workers.values() if one.pid == pid]:
                engine.die(worker)

    def is_alive(self, pid: int) -> bool:
        return any(engine.is_alive(pid) for engine in self.engines)

    def now(self) -> float:
        return self.clock.now


@pytest.fixture(scope="module")
def clock() -> VirtualClock:
    """Return the clock that the fake engine's tests go by."""
    return VirtualClock()


@pytest.fixture(scope="module")
def anyio_backend(engine: str, clock: VirtualClock) -> Any:
    """Run on asyncio alone, which every engine has; the local one's own tests are on trio too."""
    if engine == FAKE:
        return "asyncio", {"loop_factory": lambda: VirtualLoop(clock)}
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """Return a cluster of two Dask workers with two threads each."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    made = LoopbackCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker()
        made.add_worker()
        made.wait_for_workers(2)
        yield made
    finally:
        made.close()


def engine_address(name: str, request: pytest.FixtureRequest) -> str:
    """Return what a pool is told to have an engine of a name."""
    if name != "dask":
        return name
    return f"dask://{request.getfixturevalue('cluster').address}"


@pytest.fixture(scope="module", params=["local", pytest.param("dask", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    """Return one real engine's name after the other; the fake is for those who ask for it."""
    return engine_address(request.param, request)


@pytest.fixture
def machine(engine: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Return where the workers of that engine are."""
    if engine != FAKE:
        yield Machine()
        return
    clock.began = clock.now
    fake = FakeMachine(clock)
    monkeypatch.setattr("hmz_mp.core.pool.make_engine", fake.make_engine)
    with the_pools_clock(clock):
        yield fake
    assert [fault for one in fake.engines for fault in one.faults] == []


@pytest.fixture
def make_pool(engine: str, machine: Machine) -> MakePool:
    """Return what makes a pool over that engine."""

    def make(workers: int | None = None, **options: Any) -> Pool:
        return Pool(workers, engine="local" if engine == FAKE else engine, **options)

    return make
