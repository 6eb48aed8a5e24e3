from __future__ import annotations

from typing import Any, Protocol

import pytest

from hmz_mp import Pool


class MakePool(Protocol):
    """Makes a pool over the engine that a test is for."""

    def __call__(self, workers: int | None = None, **options: Any) -> Pool: ...


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run on asyncio alone, which every engine has; the local one's own tests are on trio too."""
    return "asyncio"


@pytest.fixture(params=["local"])
def make_pool(request: pytest.FixtureRequest) -> MakePool:
    """Return what makes a pool over one engine after the other."""

    def make(workers: int | None = None, **options: Any) -> Pool:
        return Pool(workers, engine=request.param, **options)

    return make
