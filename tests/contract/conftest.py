from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from hmz_mp import Pool
from tests.contract.cluster import LoopbackCluster


class MakePool(Protocol):
    """Makes a pool over the engine that a test is for."""

    def __call__(self, workers: int | None = None, **options: Any) -> Pool: ...


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run on asyncio alone, which every engine has; the local one's own tests are on trio too."""
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


@pytest.fixture(scope="module", params=["local", pytest.param("dask", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    """Return one engine's name after the other."""
    if request.param == "local":
        return "local"
    return f"dask://{request.getfixturevalue('cluster').address}"


@pytest.fixture
def make_pool(engine: str) -> MakePool:
    """Return what makes a pool over that engine."""

    def make(workers: int | None = None, **options: Any) -> Pool:
        return Pool(workers, engine=engine, **options)

    return make
