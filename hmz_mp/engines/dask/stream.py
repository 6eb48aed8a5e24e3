"""A stream of relay messages over one of Dask's comms: what waits goes together.

Knows Dask's comms and nothing of what messages mean. Used on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from distributed.comm.core import Comm
from distributed.protocol import to_serialize

from hmz_mp.engines.dask import relay
from hmz_mp_worker.framing import Buffer

__all__ = ["Stream"]

_Received = TypeVar("_Received")
_LARGE = 1 << 16  # bytes from which a buffer is a frame of Dask's own, and is not copied


class Stream(Generic[_Received]):
    """One end of a comm. Sending never blocks the loop."""

    # The whole state: what waits to be sent, with its buffers, and the task that sends it.
    def __init__(self, comm: Comm, decode: Callable[[bytes], list[_Received]]) -> None:
        self._comm = comm
        self._decode = decode
        self._messages: list[Any] = []
        self._buffers: list[Buffer] = []
        self._sender: asyncio.Task[None] | None = None

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message, with the buffers that it says it has, after those sent before."""
        self._messages.append(message)
        self._buffers += buffers
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._messages:
                messages, self._messages = self._messages, []
                buffers, self._buffers = self._buffers, []
                await self._comm.write(_written(messages, buffers))
        except OSError:  # the peer is gone, and the end of `batches` says so
            self._messages, self._buffers = [], []
        finally:
            self._sender = None

    async def flush(self) -> None:
        """Return once what was sent is with the comm."""
        if self._sender is not None:
            await asyncio.wait([self._sender])

    async def batches(self) -> AsyncIterator[tuple[list[_Received], list[Buffer]]]:
        """Yield what comes, with its buffers, until the comm is closed."""
        while True:
            try:
                message = await self._comm.read()
            except OSError:
                return
            yield self._decode(message["messages"]), _read(message)

    async def close(self) -> None:
        """Close the comm, with what was sent delivered."""
        await self.flush()
        await self._comm.close()

    def abort(self) -> None:
        """Close the comm at once."""
        if self._sender is not None:
            self._sender.cancel()
        self._comm.abort()


def _written(messages: list[Any], buffers: list[Buffer]) -> dict[str, Any]:
    message: dict[str, Any] = {"messages": relay.encode(messages)}
    if buffers:
        message["writable"] = [not memoryview(buffer).readonly for buffer in buffers]
        flat = [buffer if isinstance(buffer, bytes) else bytes(buffer) for buffer in buffers]
        message["buffers"] = [to_serialize(one) if len(one) > _LARGE else one for one in flat]
    return message


def _read(message: dict[str, Any]) -> list[Buffer]:
    """Return a message's buffers, writable where they were."""
    if "buffers" not in message:
        return []
    pairs = zip(message["buffers"], message["writable"], strict=True)
    return [bytearray(data) if writable else bytes(data) for data, writable in pairs]
