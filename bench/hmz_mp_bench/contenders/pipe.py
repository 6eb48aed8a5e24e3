"""The bare pipe: forked children over socketpairs, nothing between. The floor of any executor.

One call at a time to each child, one pickle there and one back; no failure is handled.
"""

from __future__ import annotations

import os
import pickle
import selectors
import socket
from collections.abc import Awaitable, Sequence
from typing import Any, NoReturn

from hmz_mp_bench.contenders.base import Contender, Function

__all__ = ["BarePipe"]

_LENGTH = 8


class _Channel:
    """One end: pickles with their lengths before them, received into a buffer that is kept."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._buffer = bytearray(1 << 16)

    def send(self, value: Any) -> None:
        data = pickle.dumps(value, 5)
        length = len(data).to_bytes(_LENGTH, "big")
        if len(data) < 1 << 16:
            self.end.sendall(length + data)
        else:
            self.end.sendall(length)
            self.end.sendall(data)

    def receive(self) -> Any:
        length = int.from_bytes(self._exactly(_LENGTH), "big")
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> memoryview:
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        view, got = memoryview(self._buffer)[:count], 0
        while got < count:
            some = self.end.recv_into(view[got:])
            if not some:
                raise EOFError
            got += some
        return view


def _serve(channel: _Channel) -> NoReturn:
    try:
        while True:
            function, item = channel.receive()
            channel.send(function(item))
    except EOFError:
        os._exit(0)
    finally:
        os._exit(1)


class BarePipe(Contender):
    """Forked children, asked one call at a time."""

    async def open(self) -> None:
        self.children: dict[int, _Channel] = {}
        for _ in range(self.workers):
            ours, theirs = socket.socketpair()
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            pid = os.fork()
            if not pid:
                for one in (ours, *(channel.end for channel in self.children.values())):
                    one.close()
                _serve(_Channel(theirs))
            theirs.close()
            self.children[pid] = _Channel(ours)

    async def close(self) -> None:
        for pid, channel in self.children.items():
            channel.end.close()
            os.waitpid(pid, 0)  # noqa: ASYNC222  (nothing else is on this loop)

    def submit(self, function: Function, item: Any) -> Awaitable[Any]:
        async def call() -> Any:
            channel = next(iter(self.children.values()))
            channel.send((function, item))
            return channel.receive()

        return call()

    async def gathered(self, function: Function, items: Sequence[Any]) -> list[Any]:
        answers: list[Any] = [None] * len(items)
        waiting = iter(enumerate(items))
        asked: dict[int, int] = {}  # by descriptor, which item a child has
        channels = {one.end.fileno(): one for one in self.children.values()}

        def ask(descriptor: int) -> None:
            for at, item in waiting:
                asked[descriptor] = at
                channels[descriptor].send((function, item))
                return

        with selectors.DefaultSelector() as selector:
            for descriptor in channels:
                selector.register(descriptor, selectors.EVENT_READ)
                ask(descriptor)
            while asked:
                for key, _ in selector.select():
                    answers[asked.pop(key.fd)] = channels[key.fd].receive()
                    ask(key.fd)
        return answers
