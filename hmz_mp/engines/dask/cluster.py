"""A cluster's workers, as one coordinator sees them: found, asked what they are, connected to.

It looks at the cluster every half second, and opens a site in each Dask worker that is new and can
be used. Knows the scheduler's client and nothing of turns. Imported by ``engine``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any

from distributed import Client
from distributed.comm import connect
from distributed.comm.core import Comm

from hmz_mp.engines.dask import relay, site
from hmz_mp.errors import BadInput

__all__ = ["Cluster", "Joined"]

_PATIENCE = 10.0  # seconds in which a scheduler or a worker has to answer
_LOOK = 0.5  # seconds between looks at the cluster
_SILENCES = 3  # of the scheduler, one after the other, that make it a lost one

_WANTS_TLS = " Or does it want TLS, which is set in Dask's own configuration?"

_log = logging.getLogger("hmz_mp")

Joined = Callable[[str, int, Comm, float], None]


class Cluster:
    """The connection to one scheduler, from `open` to `close`."""

    # The whole state: the client, the workers in use, why others are not, those that are being
    # joined, the watching task; whether there ever was one, and whether it was said that none is.
    def __init__(
        self,
        address: str,
        opening: Callable[[int], relay.Opening],
        joined: Joined,
        lost: Callable[[str], None],
        is_needed: Callable[[], bool],
    ) -> None:
        self.address = address
        self.used: set[str] = set()
        self._opening = opening
        self._joined = joined
        self._lost = lost
        self._is_needed = is_needed
        self._had_some = False
        self._said_none = False
        self._refused: dict[str, str] = {}
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect. Raises `BadInput` where that cannot be, or no worker there can be used."""
        try:
            await _bounded(self._knock())
            self._client = Client(
                self.address, asynchronous=True, timeout=_PATIENCE, set_as_default=False
            )
            await _bounded(self._client)
            await self._look()
            if self._joining:
                await asyncio.wait(self._joining.values())
        except (OSError, ValueError, ImportError) as error:
            await self.close()
            nobody = ConnectionRefusedError, TimeoutError, socket.gaierror
            raise BadInput(
                f"no Dask scheduler can be used at {self.address}: {_words(error)}; is it running, "
                "and is dask://HOST:PORT its address?"
                + ("" if isinstance(error, nobody) else _WANTS_TLS)
            ) from error
        except BaseException:
            await self.close()
            raise
        if self._refused and not self.used:
            await self.close()
            raise BadInput(next(iter(self._refused.values())))
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _knock(self) -> None:
        """Raise at once where nobody listens; Dask's client would try for all of its patience."""
        host, _, port = self.address.rpartition(":")
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def stop(self) -> None:
        """Join no more workers."""
        tasks = [*self._joining.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._task = None

    async def close(self) -> None:
        """Let go of the scheduler."""
        await self.stop()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def refuse(self, name: str, why: str) -> None:
        """Use a worker no more, as long as it is there."""
        self._refused[name] = why
        _log.warning("%s", why)

    async def _watch(self) -> None:
        silent = 0
        try:
            while True:
                await asyncio.sleep(_LOOK)
                if self._client.status != "running":
                    raise ConnectionError("its connection was closed")
                try:
                    await self._look()
                    silent = 0
                except TimeoutError:  # it is busy, or this process was stopped
                    silent += 1
                    if silent == _SILENCES:
                        raise
                self._say_whether_turns_wait()
        except OSError as error:  # a TimeoutError is one too
            self._lost(f"the Dask scheduler at {self.address} is lost: {_words(error)}")

    def _say_whether_turns_wait(self) -> None:
        """Say once that turns wait since there is no worker, and once that there are some."""
        if self.used:
            if self._said_none:
                workers = f"{len(self.used)} Dask workers are"
                are = "1 Dask worker is" if len(self.used) == 1 else workers
                again = " again" if self._had_some else ""
                _log.warning("%s there%s: turns go on", are, again)
            self._said_none, self._had_some = False, True
        elif not self._said_none and self._is_needed():
            self._said_none = True
            _log.warning("no Dask worker at %s can be used now: turns wait for one", self.address)

    async def _look(self) -> None:
        """Begin to join every worker that is new."""
        threads: dict[str, int] = await _bounded(self._client.scheduler.ncores())
        self._refused = {name: why for name, why in self._refused.items() if name in threads}
        loop = asyncio.get_running_loop()
        for name, count in threads.items():
            if name not in self.used and name not in self._refused and name not in self._joining:
                self._joining[name] = task = loop.create_task(self._join(name, count))
                task.add_done_callback(partial(self._note_joined, name))

    def _note_joined(self, name: str, _: object) -> None:
        del self._joining[name]

    async def _join(self, name: str, threads: int) -> None:
        """Open a site in a worker, or say why not."""
        cwd = self._opening(1).cwd
        try:
            found = await _bounded(
                self._client.run(site.introduce, cwd, workers=[name], on_error="return")
            )
        except OSError:  # that is the scheduler's, and seen at the next look, as this worker is
            return
        except Exception as error:
            self.refuse(name, f"the Dask worker {name} cannot be asked what it is: {_words(error)}")
            return
        if name not in found or isinstance(found[name], OSError):  # it is gone again
            return
        wrong = _wrong_with(name, found[name], os.fsdecode(cwd))
        if wrong:
            self.refuse(name, wrong)
            return
        try:
            comm, offset = await _bounded(self._connect(name, threads))
        except OSError as error:
            self.refuse(
                name,
                f"the Dask worker {name} cannot be reached from this machine: {_words(error)}; "
                f"run where its address can be connected to, as Dask's actors need it too",
            )
        else:
            self.used.add(name)
            self._joined(name, threads, comm, offset)
            self._say_whether_turns_wait()

    async def _connect(self, name: str, threads: int) -> tuple[Comm, float]:
        """Return a comm to a site, and how far this clock is ahead of its clock."""
        comm = await connect(name, timeout=_PATIENCE, **self._client.connection_args)
        try:
            opening = relay.encode(self._opening(threads))
            before = monotonic()
            await comm.write({"op": site.OPERATION, "reply": False, "opening": opening})
            answer = await comm.read()
            after = monotonic()
            if "clock" not in answer:
                raise ConnectionError(str(answer.get("text", answer))[:500])
        except BaseException:
            comm.abort()
            raise
        offset = (before + after) / 2 - float(answer["clock"])
        # Less than what the question took may be nothing: the same machine has the same clock.
        return comm, offset if abs(offset) > after - before else 0.0


async def _bounded(awaitable: Awaitable[Any]) -> Any:
    """Return what comes in time. Raises `TimeoutError`, an `OSError`, otherwise."""
    async with asyncio.timeout(_PATIENCE):
        return await awaitable


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _wrong_with(name: str, found: object, cwd: str) -> str:
    """Return why a worker that introduced itself cannot be used, or an empty string."""
    if not isinstance(found, bytes):
        why = _words(found) if isinstance(found, BaseException) else repr(found)
        return (
            f"the Dask worker {name} cannot run hmz-mp ({why}): install there the hmz-mp that is "
            f"installed here, {site.introduction(cwd).hmz_mp}, with its extra dask"
        )
    theirs, ours = relay.decode_introduction(found), site.introduction(cwd)
    pairs = [
        ("Python", theirs.python, ours.python),
        ("hmz-mp", theirs.hmz_mp, ours.hmz_mp),
        ("hmz-mp's protocol", str(theirs.wire), str(ours.wire)),
        ("cloudpickle", _major(theirs.cloudpickle), _major(ours.cloudpickle)),
    ]
    for what, there, here in pairs:
        if there != here:
            return (
                f"the Dask worker {name} has {what} {there}, this process {here}: use one of both"
            )
    if not theirs.sees:
        return (
            f"the Dask worker {name} cannot see the working directory {cwd}: share it with its "
            f"machine, name one that is there with cwd=, or send files with exec --ship"
        )
    return ""


def _major(version: str) -> str:
    return version.partition(".")[0]


def prefixes() -> list[bytes]:
    """Return where this process's Python is."""
    return [os.fsencode(sys.prefix), os.fsencode(sys.base_prefix)]
