from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

from distributed.comm import connect, listen

from hmz_mp.engines.dask import relay
from hmz_mp.engines.dask.stream import Stream
from hmz_mp_worker.framing import Buffer

Streams = tuple[Stream[Any], Stream[Any]]


@asynccontextmanager
async def pair() -> AsyncIterator[Streams]:
    """Yield a site's stream, and its coordinator's."""
    came: asyncio.Queue[Any] = asyncio.Queue()
    done = asyncio.Event()

    async def handle(comm: Any) -> None:
        came.put_nowait(comm)
        await done.wait()

    async with listen("tcp://127.0.0.1:0", handle) as listener:
        ours = await connect(listener.contact_address)
        theirs = await came.get()
        yield Stream(theirs, relay.decode_to_site), Stream(ours, relay.decode_from_site)
        done.set()
        ours.abort()
        theirs.abort()


def on_a_loop(test: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_what_waits_goes_together_and_in_order() -> None:
    async def go() -> None:
        async with pair() as (site, coordinator):
            for at in range(100):
                coordinator.send(relay.Frame(at, b"body"))
            coordinator.send(relay.Kill(3, 4))
            batch, buffers = await anext(site.batches())
            assert batch == [*(relay.Frame(at, b"body") for at in range(100)), relay.Kill(3, 4)]
            assert buffers == []

    on_a_loop(go)


def test_buffers_arrive_as_what_they_were() -> None:
    async def go() -> None:
        async with pair() as (site, coordinator):
            sent: list[Buffer] = [
                b"",
                b"small",
                bytearray(b"writable"),
                os.urandom(1 << 20),
                bytearray(os.urandom(1 << 20)),
                memoryview(b"a view"),
            ]
            site.send(relay.Frame(1, b"", 2), sent[:2])
            site.send(relay.Frame(2, b"", 4), sent[2:])
            batch, buffers = await anext(coordinator.batches())
            assert [one.buffers for one in batch] == [2, 4]
            assert buffers == sent
            assert [type(one) for one in buffers] == [
                *(bytes, bytes, bytearray),
                *(bytes, bytearray, bytes),
            ]

    on_a_loop(go)


def test_it_ends_with_the_comm_and_takes_what_is_sent_afterwards() -> None:
    async def go() -> None:
        async with pair() as (site, coordinator):
            coordinator.send(relay.Bound())
            await coordinator.close()
            assert [batch async for batch, _ in site.batches()] == [[relay.Bound()]]
            coordinator.send(relay.Bound())
            await coordinator.flush()
            coordinator.abort()

    on_a_loop(go)
