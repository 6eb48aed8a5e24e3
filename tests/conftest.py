"""What every test gets: both event loops, and a look at what it left behind.

``--repeat N`` runs each test N times in a row: what races is seen seldom.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.helpers import Holdings

_SETTLING = 5.0  # seconds that threads and processes have to end after a test


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--repeat", type=int, default=1, help="run each test so many times in a row")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    times = metafunc.config.getoption("repeat")
    if times > 1:
        metafunc.fixturenames.append("_time")
        metafunc.parametrize("_time", range(times), ids=lambda time: f"time{time + 1}")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run a test that is marked ``anyio`` on asyncio and on trio."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_by_module() -> Iterator[None]:
    """No child process, descriptor or non-daemon thread outlives a module's fixtures."""
    before = Holdings.now()
    yield
    _settle(lambda: Holdings.now().beyond(before))


@pytest.fixture(autouse=True)
def _nothing_left(_nothing_left_by_module: None) -> Iterator[None]:
    """Nor the test that made it."""
    before = Holdings.now()
    yield
    portal = sys.modules.get("hmz_mp.portal")
    if portal is not None:  # the process's own pool lives until exit, by design
        portal.close()
    wider = bool(before.children)
    _settle(lambda: (Holdings.beyond_wider if wider else Holdings.beyond)(Holdings.now(), before))


def _settle(leftovers: Callable[[], list[str]]) -> None:
    deadline = time.monotonic() + _SETTLING
    while left := leftovers():
        assert time.monotonic() < deadline, "left behind: " + "; ".join(left)
        gc.collect()
        time.sleep(0.005)
