from __future__ import annotations

import pytest


@pytest.fixture(scope="module", params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """What differs by the loop is the pool's, and tried there; trio is tried in `make slow`."""
    return str(request.param)
