"""The Dask engine, as a coordinator has it: what is asked of workers goes to their sites.

It starts a worker where there is most room, and keeps which worker is where. Calls are packed here
and travel as frames, so a pack of them costs one message. A lost Dask worker is the end of each of
its workers; which of a worker's calls ran is not known then, and is taken to be the oldest.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

import msgspec
from distributed.comm.core import Comm

from hmz_mp.core.jobs import Kind
from hmz_mp.core.loop import Driver
from hmz_mp.core.shipment import Shipment
from hmz_mp.engines.dask import relay
from hmz_mp.engines.dask.cluster import Cluster, prefixes
from hmz_mp.engines.dask.kept import Account, Worth
from hmz_mp.engines.dask.stream import Stream
from hmz_mp.engines.packing import pack
from hmz_mp.engines.protocol import OLDEST, EngineEvents
from hmz_mp.engines.zygote import ZygoteConfig, own_path
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer

__all__ = ["DaskEngine"]

_END_GRACE = 15.0  # seconds that a site has to end everything, more than it takes itself


class _Site:
    """One Dask worker, as the engine knows it."""

    __slots__ = ("account", "address", "listener", "offset", "slots", "stream", "workers")

    def __init__(
        self,
        address: str,
        slots: int,
        stream: Stream[relay.FromSite],
        offset: float,
        account: Account,
    ) -> None:
        self.address = address
        self.slots = slots
        self.stream = stream
        self.offset = offset  # to be added to times of its clock
        self.workers: dict[int, _Worker] = {}
        self.listener: asyncio.Task[None] | None = None
        self.account = account  # of the large pieces of frames that it keeps

    def send_frame(self, worker: int, body: bytes, buffers: Sequence[Buffer]) -> None:
        """Send a worker's frame, but for large pieces of it that are kept there.

        Without a ``body`` the first buffer is that.
        """
        account, send = self.account, self.stream.send
        if body and not account.concerns(buffers):
            send(relay.Frame(worker, body, len(buffers)), buffers)
            return
        pieces, sent = account.take(buffers)
        send(relay.Pieces(worker, body, pieces, len(sent)), sent)
        surplus = account.surplus()
        if surplus:
            send(relay.Discard(surplus))

    def load(self, kind: Kind) -> float:
        """Return how full it would be with one more worker of a kind."""
        return (1 + sum(one.kind == kind for one in self.workers.values())) / self.slots


class _Worker:
    """One worker process, as the engine knows it."""

    __slots__ = ("functions", "held", "held_tree", "kind", "pid", "site")

    def __init__(self, kind: Kind, site: _Site) -> None:
        self.kind: Kind = kind
        self.site = site
        self.pid: int | None = None
        self.functions: set[int] = set()  # ids that it was sent
        self.held = 0  # bytes, when it was last measured
        self.held_tree = 0


class _NoSharedMemory:
    """Between machines everything goes with the message."""

    def put(self, parts: Sequence[Buffer]) -> list[int] | None:
        """Take nothing."""


class DaskEngine:
    """Runs one pool's workers on a cluster. asyncio only, as Dask is."""

    # The whole state: the cluster, its sites that are in use, the workers alive, what was said of
    # the paths and of cloudpickle, whether the end has begun, and which large pieces of frames are
    # worth digesting.
    def __init__(
        self,
        driver: Driver,
        events: EngineEvents,
        config: ZygoteConfig,
        *,
        address: str,
        most: int | None,
        initializer: bytes = b"",
        log_level: int = 30,
    ) -> None:
        self._driver = driver
        self._events = events
        self._config = config
        self._most = most
        self._initializer = initializer
        self._log_level = log_level
        self._cluster = Cluster(
            address, self._opening, self._joined, self._scheduler_lost, events.has_turns
        )
        self._sites: dict[str, _Site] = {}
        self._workers: dict[int, _Worker] = {}
        self._paths: tuple[list[str], str] = ([], "")
        self._by_value = False
        self._closing = False
        self._worth = Worth()

    async def open(self) -> None:
        """Connect to the cluster. Raises `BadInput` where that cannot be."""
        self._paths = own_path(), self._cwd()
        try:
            await self._cluster.open()
        except BaseException:
            await self.kill_all()
            raise
        self._say_capacity()

    def _opening(self, workers: int) -> relay.Opening:
        path, cwd = self._paths
        config = self._config
        return relay.Opening(
            sys_path=[os.fsencode(one) for one in path],
            prefixes=prefixes(),
            cwd=os.fsencode(cwd),
            preload=list(config.preload),
            env=dict(config.env or {}),
            niceness=config.niceness,
            initializer=self._initializer,
            log_level=self._log_level,
            workers=workers,
        )

    # The cluster.

    def _joined(self, address: str, slots: int, comm: Comm, offset: float) -> None:
        """Use a Dask worker from now on."""
        stream = Stream(comm, relay.decode_from_site)
        account = Account(self._worth)
        site = _Site(address, max(1, slots), stream, offset, account)
        self._sites[address] = site
        site.listener = asyncio.get_running_loop().create_task(self._listen(site))
        if self._by_value:
            stream.send(relay.ByValue())
        self._say_capacity()

    def _say_capacity(self) -> None:
        total = sum(site.slots for site in self._sites.values())
        self._events.capacity_changed(total if self._most is None else min(total, self._most))

    async def _listen(self, site: _Site) -> None:
        """Take in what a site says until it is lost."""
        try:
            async for messages, buffers in site.stream.batches():
                at = 0
                for message in messages:
                    if isinstance(message, relay.Frame):
                        self._frame(site, message, buffers[at : at + message.buffers])
                        at += message.buffers
                    else:
                        self._take(site, message)
                self._events.settle()
        finally:
            site.stream.abort()
            self._site_lost(site)

    def _site_lost(self, site: _Site) -> None:
        """Report the end of every worker of a Dask worker."""
        del self._sites[site.address]
        self._cluster.used.discard(site.address)
        said = "" if self._closing else f"[the Dask worker {site.address} was lost]"
        for worker in list(site.workers):
            self._ended(worker, OLDEST, WorkerDied(site.workers[worker].pid, stderr_tail=said))
        self._say_capacity()

    def _scheduler_lost(self, reason: str) -> None:
        self._events.engine_failed(reason, "")

    def _ended(self, worker: int, running: int, error: WorkerDied) -> None:
        known = self._workers.pop(worker, None)
        if known is not None:
            del known.site.workers[worker]
            self._events.worker_died(worker, running, error)

    # What sites say.

    def _frame(self, site: _Site, frame: relay.Frame, buffers: list[Buffer]) -> None:
        message, worker = wire.decode_from_worker(frame.body), frame.worker
        if isinstance(message, wire.Answers):
            answers = message.answers
            if site.offset:
                answers = [
                    msgspec.structs.replace(one, began=one.began + site.offset) for one in answers
                ]
            self._events.worker_answered(worker, answers, buffers)
        elif isinstance(message, wire.Said):
            self._events.worker_said(worker, message)
        elif isinstance(message, wire.GaveBack):
            self._events.worker_gave_back(worker, message.tickets, message.running)
        elif isinstance(message, wire.Ready):
            self._workers[worker].pid = message.pid
            self._events.worker_ready(worker)
        else:
            self._events.worker_refused(message)

    def _take(self, site: _Site, message: relay.FromSite) -> None:
        if isinstance(message, relay.Died):
            error = WorkerDied(
                message.pid,
                exitcode=message.exitcode,
                signal=message.signal,
                stderr_tail=message.tail,
            )
            self._ended(message.worker, message.running, error)
        elif isinstance(message, relay.Missed):
            self._events.worker_missed(message.worker)
        elif isinstance(message, relay.Held):
            self._note_held(message)
        elif isinstance(message, relay.Failed) and not self._closing:
            reason = f"in the Dask worker {site.address}: {message.reason}"
            if len(self._sites) > 1:
                self._cluster.refuse(site.address, f"{reason}; going on without it")
                site.stream.abort()  # and its listener reports the rest
            else:
                self._events.engine_failed(reason, message.said)

    def _note_held(self, held: relay.Held) -> None:
        known = self._workers.get(held.worker)
        if known is not None and held.tree:
            known.held_tree = held.held
        elif known is not None:
            known.held = held.held

    # Commands.

    def start_worker(self, worker: int, kind: Kind) -> None:
        """Start a worker in the Dask worker that has most room for one."""
        if not self._sites:  # the last one was lost since its start was decided
            ended = WorkerDied(stderr_tail="[there is no Dask worker]")
            self._driver.call_soon(lambda: self._events.worker_died(worker, 0, ended))
            return
        site = min(self._sites.values(), key=lambda one: one.load(kind))
        self._workers[worker] = site.workers[worker] = _Worker(kind, site)
        site.stream.send(relay.Start(worker, kind == "host"))

    def ship(self, worker: int, jobs: Sequence[Shipment]) -> None:
        """Send calls to a worker, with the functions it does not have yet."""
        known = self._workers.get(worker)
        if known is None:
            return
        send_frame = known.site.send_frame
        *functions, calls = pack(jobs, known.kind, known.functions, _NoSharedMemory())
        for body, _ in functions:  # each of one large function, the same for every worker
            send_frame(worker, b"", [body])
        send_frame(worker, *calls)

    def forget(self, functions: Sequence[int], sessions: Sequence[int]) -> None:
        """Tell workers that functions and sessions will not be named again."""
        for worker, known in self._workers.items():
            known.functions.difference_update(functions)
            self._send(worker, wire.Forget(list(functions), list(sessions)))

    def cancel_turn(self, worker: int, ticket: int) -> None:
        """Cancel one turn of a host worker."""
        self._send(worker, wire.Cancel(ticket))

    def tell_turn(self, worker: int, ticket: int, data: bytes) -> None:
        """Tell one running turn of a host worker something."""
        self._send(worker, wire.Tell(ticket, data))

    def retire(self, worker: int) -> None:
        """Let a worker finish what it has and exit."""
        self._send(worker, wire.Retire())

    def kill(self, worker: int, only: int) -> None:
        """End a worker, if the call of ticket ``only`` is what it runs (0: whatever it runs)."""
        known = self._workers.get(worker)
        if known is not None:
            known.site.stream.send(relay.Kill(worker, only))

    def _send(self, worker: int, message: wire.ToWorker) -> None:
        known = self._workers.get(worker)
        if known is not None:
            known.site.stream.send(relay.Frame(worker, wire.encode(message)))

    def _tell_sites(self, message: relay.ToSite) -> None:
        for site in self._sites.values():
            site.stream.send(message)

    def follow_paths(self) -> None:
        """Tell workers when ``sys.path`` or the working directory has changed."""
        cwd = self._cwd()
        if sys.path != self._paths[0] or cwd != self._paths[1]:
            paths = own_path(), cwd
            if paths != self._paths:
                self._paths = paths
                self._tell_sites(
                    relay.Paths([os.fsencode(one) for one in paths[0]], os.fsencode(cwd))
                )

    def _cwd(self) -> str:
        if self._config.cwd is not None:
            return self._config.cwd
        try:
            return os.getcwd()  # noqa: PTH109  # asked before each shipment, at half the cost
        except OSError:  # it was removed; workers stay where they are
            return self._paths[1] or os.curdir

    def prepare_by_value(self) -> None:
        """Have later workers start with cloudpickle imported, since they will need it."""
        if not self._by_value:
            self._by_value = True
            self._tell_sites(relay.ByValue())

    def bound_outputs(self) -> None:
        """Keep what workers print, and what they left running prints, from filling memory."""
        self._tell_sites(relay.Bound())

    # Asking.

    def pid(self, worker: int) -> int | None:
        """Return a worker's process id on its machine, once it is known."""
        known = self._workers.get(worker)
        return known.pid if known is not None else None

    def resident_memory(self, worker: int, *, tree: bool = False) -> int:
        """Return the bytes that a worker held when it was last measured, and have it measured."""
        known = self._workers.get(worker)
        if known is None:
            return 0
        known.site.stream.send(relay.Measure(worker, tree))
        return known.held_tree if tree else known.held

    def programs(self, worker: int) -> Mapping[int, int]:  # noqa: ARG002  # as the protocol has it
        """Return nothing: the programs of other machines take none of this one's memory."""
        return {}

    # The end.

    async def close(self) -> None:
        """Let idle workers exit, end the others, and return when nothing is left."""
        await self._end(orderly=True)

    async def kill_all(self) -> None:
        """End every worker and what it started; return when nothing is left."""
        await self._end(orderly=False)

    async def _end(self, *, orderly: bool) -> None:
        import anyio

        self._closing = True
        with anyio.CancelScope(shield=True):
            await self._cluster.stop()
            self._tell_sites(relay.Close(orderly))
            listeners = [site.listener for site in self._sites.values() if site.listener]
            if listeners:
                _, stubborn = await asyncio.wait(listeners, timeout=_END_GRACE)
                for listener in stubborn:  # upon the end of its comm it ends everything too
                    listener.cancel()
                if stubborn:
                    await asyncio.wait(stubborn)
            await self._cluster.close()
