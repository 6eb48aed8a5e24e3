"""Faults are the processes', not the loops': one loop is enough for most of these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
