"""A downstream service on loopback that counts how many are in it at once, and a tool that asks it.

What is measured is what the service sees, whichever processes the calls come from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from hmz_mp import tool
from tests.helpers import await_until


class Width:
    """``now`` are in it, ``most`` were at once, ``asked`` in all; each stays ``hold`` seconds.

    ``longest`` is what one stayed at most, ``stayed`` what all did together.
    """

    def __init__(self, hold: float) -> None:
        self.now = self.most = self.asked = 0
        self.longest = self.stayed = 0.0
        self.hold = hold
        self.url = ""

    @classmethod
    @asynccontextmanager
    async def measured(cls, hold: float = 0.05) -> AsyncIterator[Width]:
        """Serve while this is open."""
        width = cls(hold)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        width.url = str(listener.extra(SocketAttribute.local_port))
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, width._serve)
            yield width
            group.cancel_scope.cancel()

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            self.now += 1
            self.asked += 1
            self.most = max(self.most, self.now)
            began = time.monotonic()
            try:
                with anyio.move_on_after(self.hold):
                    await stream.receive()  # it ends when the client does
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
            finally:
                self.now -= 1
                took = time.monotonic() - began
                self.longest = max(self.longest, took)
                self.stayed += took

    async def reached(self, number: int) -> None:
        """Wait until so many are in it."""
        await await_until(lambda: self.now == number)


@tool
async def wide(port: str) -> str:
    """Ask the service at a port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    try:
        await reader.read()
    finally:
        writer.close()
    return "served"
