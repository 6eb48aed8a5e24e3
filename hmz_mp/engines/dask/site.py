"""What runs in a Dask worker: the local engine, for one coordinator, until that is gone.

Calls run in processes of ours below the Dask worker, never in its threads, so that they can be
stopped, bounded and blamed there as here. What arrives is done, what happens is sent on; nothing is
decided. It is reached by the address on which the Dask worker listens anyway, whose trust (TLS,
who may connect) is Dask's own matter. Imported in Dask workers, by name.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from distributed.comm.core import Comm

from hmz_mp.core.cpus import worker_environment
from hmz_mp.core.loop import AsyncioDriver
from hmz_mp.engines.dask import relay
from hmz_mp.engines.dask.kept import Kept
from hmz_mp.engines.dask.stream import Stream
from hmz_mp.engines.local import LocalEngine
from hmz_mp.engines.zygote import ZygoteConfig, own_path
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.scratch import SCRATCH
from hmz_mp_worker.worktrees.removal import remove_tree

__all__ = ["OPERATION", "introduce", "introduction", "serve"]

OPERATION = "hmz_mp"  # of Dask's messages, by which a comm becomes ours


def introduction(cwd: str) -> relay.Introduction:
    """Return what this process is."""
    return relay.Introduction(
        python=".".join(map(str, sys.version_info[:2])),
        hmz_mp=metadata.version("hmz-mp"),
        cloudpickle=metadata.version("cloudpickle"),
        wire=wire.VERSION,
        sees=os.path.isdir(cwd),  # noqa: PTH112  # what may be no path here
    )


def introduce(cwd: bytes, dask_worker: Any = None) -> bytes:
    """Have a Dask worker take our comms, and return what it is. Run by Dask, in the worker."""

    async def handler(comm: Comm, opening: bytes) -> None:
        await serve(comm, opening, dask_worker.local_directory)

    dask_worker.handlers[OPERATION] = handler
    return relay.encode(introduction(os.fsdecode(cwd)))


async def serve(comm: Comm, opening: bytes, directory: str) -> None:
    """Serve a coordinator over a comm until that is closed; then leave nothing behind.

    ``directory`` is the Dask worker's own. What a killed one leaves there, Dask removes later.
    """
    scratch = str(Path(directory, f"hmz-mp-{uuid.uuid4()}"))  # made by who needs it
    stream = Stream(comm, relay.decode_to_site)
    site = _Site(stream, relay.decode_opening(opening), scratch)
    await comm.write({"clock": monotonic()})
    try:
        await site.run()
    finally:
        await site.clear()


class _SiteEngine(LocalEngine):
    """The local engine, with frames that somebody else has packed, and somebody else's paths."""

    given: tuple[list[str], str]

    def start(self) -> None:
        """Start a zygote."""
        super().start()
        self._paths = self.given

    def set_paths(self, sys_path: list[str], cwd: str) -> None:
        """Have workers import from there, and work there, from now on."""
        self._paths = self.given = sys_path, cwd
        for worker in self._workers:
            self._send(worker, wire.Paths(sys_path, cwd))

    def send_frame(self, worker: int, body: bytes, buffers: Sequence[Buffer]) -> None:
        """Send a worker a frame."""
        target = self._workers.get(worker)
        if target is not None:
            target.connection.send(body, buffers)


class _Site:
    """One coordinator's workers in this Dask worker. Hears what happens to them (EngineEvents)."""

    # The whole state: the stream, the engine with the workers, what it was opened with, the large
    # pieces of frames that are kept, and where workers may put files.
    def __init__(self, stream: Stream[relay.ToSite], opening: relay.Opening, scratch: str) -> None:
        self._stream = stream
        self._scratch = scratch
        self._opening = opening
        self._kept = Kept()
        path, cwd = self._localized(opening.sys_path, opening.cwd)
        config = ZygoteConfig(
            preload=opening.preload,
            env=worker_environment(opening.workers, opening.env) | {SCRATCH: scratch},
            cwd=cwd,
            niceness=opening.niceness,
            sys_path=path,
        )
        self.engine = _SiteEngine(
            AsyncioDriver(asyncio.get_running_loop()),
            self,
            config,
            initializer=opening.initializer,
            log_level=opening.log_level,
        )
        self.engine.given = path, cwd

    async def run(self) -> None:
        """Do what comes, until there is no more or the workers are to be ended."""
        self.engine.start()
        async for messages, buffers in self._stream.batches():
            at = 0
            for message in messages:
                if isinstance(message, (relay.Frame, relay.Pieces)):
                    own = buffers[at : at + message.buffers]
                    at += message.buffers
                    self._frame(message, own)
                elif isinstance(message, relay.Close):
                    await self._end(orderly=message.orderly)
                    return
                else:
                    self._take(message)

    def _frame(self, frame: relay.Frame | relay.Pieces, buffers: list[Buffer]) -> None:
        body = frame.body
        if isinstance(frame, relay.Pieces):
            buffers = self._kept.put_together(frame.pieces, buffers)
            if not body:
                body = bytes(buffers.pop(0))
        self.engine.send_frame(frame.worker, body, buffers)

    def _take(self, message: relay.ToSite) -> None:
        engine = self.engine
        if isinstance(message, relay.Start):
            self._start(message)
        elif isinstance(message, relay.Kill):
            engine.kill(message.worker, message.only)
        elif isinstance(message, relay.Paths):
            engine.set_paths(*self._localized(message.sys_path, message.cwd))
        elif isinstance(message, relay.ByValue):
            engine.prepare_by_value()
        elif isinstance(message, relay.Bound):
            engine.bound_outputs()
        elif isinstance(message, relay.Discard):
            self._kept.forget(message.digests)
        elif isinstance(message, relay.Measure):
            held = engine.resident_memory(message.worker, tree=message.tree)
            self._stream.send(relay.Held(message.worker, message.tree, held))

    def _start(self, start: relay.Start) -> None:
        try:
            self.engine.start_worker(start.worker, "host" if start.host else "call")
        except OSError as error:  # no descriptors are left
            self.worker_died(start.worker, 0, WorkerDied(exitcode=1, stderr_tail=str(error)))

    async def clear(self) -> None:
        """End every worker, and remove what they left."""
        await self.engine.kill_all()
        await asyncio.to_thread(remove_tree, self._scratch)

    async def _end(self, *, orderly: bool) -> None:
        if orderly:
            await self.engine.close()
        await self.clear()
        self._stream.send(relay.Closed())
        await self._stream.close()

    def _localized(self, sys_path: list[bytes], cwd: bytes) -> tuple[list[str], str]:
        """Return the coordinator's paths as they are of use here, before this process's own.

        Its Python's own folders are left out where that is another Python than this one's.
        """
        theirs = [os.fsdecode(one) for one in sys_path]
        prefixes = [os.fsdecode(one) for one in self._opening.prefixes]
        if prefixes != [sys.prefix, sys.base_prefix]:
            theirs = [one for one in theirs if not any(_is_below(one, up) for up in prefixes)]
        own = own_path()
        found = [one for one in theirs if one in own or not one or os.path.exists(one)]  # noqa: PTH110  # strings
        return list(dict.fromkeys([*found, *own])), os.fsdecode(cwd)

    # What happens to workers.

    def _pass_on(
        self, worker: int, message: wire.FromWorker, buffers: Sequence[Buffer] = ()
    ) -> None:
        self._stream.send(relay.Frame(worker, wire.encode(message), len(buffers)), buffers)

    def worker_ready(self, worker: int) -> None:
        """Hear that a worker is set up."""
        self._pass_on(worker, wire.Ready(wire.VERSION, self.engine.pid(worker) or 0))

    def worker_refused(self, failure: wire.StartFailed) -> None:
        """Hear that a worker cannot be set up; its end follows."""
        self._pass_on(0, failure)

    def worker_answered(
        self, worker: int, answers: Sequence[wire.Answer], buffers: list[Buffer]
    ) -> None:
        """Hear how calls ended."""
        first = answers[0]
        if first.shared is not None:  # it came alone, and its pickle lies in shared memory
            answers = [msgspec.structs.replace(first, shared=None, buffers=len(buffers))]
            buffers = [bytes(buffers[0]), *buffers[1:]]
        self._pass_on(worker, wire.Answers(list(answers)), buffers)

    def worker_gave_back(self, worker: int, tickets: list[int], running: int) -> None:
        """Hear that calls did not begin."""
        self._pass_on(worker, wire.GaveBack(tickets, running))

    def worker_said(self, worker: int, said: wire.Said) -> None:
        """Hear something of a running call."""
        self._pass_on(worker, said)

    def settle(self) -> None:
        """Act on what was heard: it is sent in the loop's next step anyway."""

    def worker_missed(self, worker: int) -> None:
        """Hear that a conditional kill was not carried out."""
        self._stream.send(relay.Missed(worker))

    def worker_died(self, worker: int, running: int, error: WorkerDied) -> None:
        """Hear a worker's end, and the ticket of what it ran."""
        ending = error.exitcode, error.signal, error.stderr_tail
        self._stream.send(relay.Died(worker, running, error.pid, *ending))

    def capacity_changed(self, workers: int) -> None:
        """Hear how many workers there can be; the local engine never says so."""

    def has_turns(self) -> bool:
        """Return False: which turns there are is known to the coordinator alone."""
        return False

    def engine_failed(self, reason: str, said: str) -> None:
        """Hear that no workers can be started."""
        self._stream.send(relay.Failed(reason, said))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
