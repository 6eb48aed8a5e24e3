from __future__ import annotations

import socket
from collections.abc import Iterator
from time import monotonic

import anyio
import anyio.lowlevel
import pytest

from hmz_mp.core.loop import AsyncioDriver, TrioDriver, current_driver
from tests.helpers import await_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


async def test_which_driver(anyio_backend_name: str) -> None:
    driver = current_driver()
    assert isinstance(driver, AsyncioDriver if anyio_backend_name == "asyncio" else TrioDriver)


def test_outside_a_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        current_driver()


async def test_call_soon_is_not_at_once() -> None:
    called: list[int] = []
    driver = current_driver()
    driver.call_soon(lambda: called.append(1))
    driver.call_soon(lambda: called.append(2))
    assert called == []
    await await_until(lambda: len(called) == 2)
    assert called == [1, 2]


async def test_call_soon_from_what_was_called_soon() -> None:
    called: list[int] = []
    driver = current_driver()

    def call() -> None:
        called.append(len(called))
        if len(called) < 3:
            driver.call_soon(call)

    for _ in range(2):  # the second time, what calls has gone to sleep
        called.clear()
        driver.call_soon(call)
        await await_until(lambda: len(called) == 3)
        await anyio.lowlevel.checkpoint()
    await driver.close()


async def test_what_is_due_when_the_driver_is_closed_is_called() -> None:
    called: list[int] = []
    driver = current_driver()
    driver.call_soon(lambda: called.append(1))
    await driver.close()
    await await_until(lambda: called == [1])


async def test_call_at() -> None:
    called: list[float] = []
    driver = current_driver()
    began = monotonic()
    driver.call_at(began + 0.03, lambda: called.append(monotonic()))
    driver.call_at(began - 5, lambda: called.append(0.0))
    cancelled = driver.call_at(began + 0.01, lambda: called.append(-1.0))
    cancelled.cancel()
    await await_until(lambda: len(called) == 2)
    assert called[0] == 0.0
    assert called[1] >= began + 0.03


async def test_readers(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    right.setblocking(False)
    driver = current_driver()
    got = bytearray()
    driver.add_reader(right.fileno(), lambda: got.extend(right.recv(3)))
    left.sendall(b"abcdefgh")
    await await_until(lambda: got == b"abcdefgh")
    driver.remove_reader(right.fileno())
    left.sendall(b"more")
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert got == b"abcdefgh"
    driver.add_reader(right.fileno(), lambda: got.extend(right.recv(9)))
    await await_until(lambda: got == b"abcdefghmore")
    driver.remove_reader(right.fileno())
    await driver.close()


async def test_a_reader_that_removes_itself_and_closes(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    driver = current_driver()
    called: list[int] = []

    def once() -> None:
        called.append(right.fileno())
        driver.remove_reader(right.fileno())
        right.close()

    driver.add_reader(right.fileno(), once)
    left.sendall(b"x")
    await await_until(lambda: called)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert len(called) == 1
    await driver.close()


async def test_writers(pair: tuple[socket.socket, socket.socket]) -> None:
    left, _ = pair
    driver = current_driver()
    called: list[int] = []

    def note() -> None:
        called.append(1)
        driver.remove_writer(left.fileno())

    driver.add_writer(left.fileno(), note)
    await await_until(lambda: called)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert called == [1]
    await driver.close()


async def test_removing_what_is_not_there(pair: tuple[socket.socket, socket.socket]) -> None:
    driver = current_driver()
    driver.remove_reader(pair[0].fileno())
    driver.remove_writer(pair[0].fileno())
    await driver.close()
