"""The local engine: worker processes of this machine, forked by a zygote.

It carries out what the policy decides, and reports what happens, as ``protocol`` says. It decides
nothing itself, but for starting a new zygote when one is lost. A worker's end is what the zygote
says, never the end of its connection, which a grandchild may hold open.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from hmz_mp.core.jobs import Kind
from hmz_mp.core.loop import Driver
from hmz_mp.core.programs import programs_of
from hmz_mp.core.shipment import Shipment
from hmz_mp.core.statistics import resident_memory
from hmz_mp.engines.connection import Connection
from hmz_mp.engines.packing import pack
from hmz_mp.engines.protocol import EngineEvents
from hmz_mp.engines.zygote import ZygoteConfig, ZygoteHandle, authkey, own_path
from hmz_mp.errors import WorkerDied
from hmz_mp_worker import wire
from hmz_mp_worker.arena import Arena
from hmz_mp_worker.framing import Frame
from hmz_mp_worker.kernel import signal_all
from hmz_mp_worker.page import anonymous_file, read_page
from hmz_mp_worker.stdio import bound, output_file, tail

if TYPE_CHECKING:
    import anyio

__all__ = ["LocalEngine"]

_KILL_GRACE = 0.5  # seconds between TERM and KILL
_RETIRE_GRACE = 5.0  # seconds that idle workers have to exit when the pool is left
_ZYGOTE_GRACE = 6.0  # seconds that the zygote has to end everything, more than it takes itself
_TAIL = 4096
_SPARE_DESCRIPTORS = 8


class _LocalWorker:
    """One worker process, as the engine knows it."""

    __slots__ = ("arena", "connection", "functions", "kind", "output", "page", "pid")

    def __init__(self, kind: Kind, connection: Connection, output: int, page: int) -> None:
        self.kind: Kind = kind
        self.connection = connection
        self.output = output
        self.page = page
        self.arena = Arena(page)
        self.pid: int | None = None
        self.functions: set[int] = set()  # ids that it was sent

    def close(self) -> None:
        """Let go of everything of it. Idempotent."""
        self.connection.close()
        self.arena.close()
        for fd in (self.output, self.page):
            if fd >= 0:
                os.close(fd)
        self.output = self.page = -1

    def __del__(self) -> None:  # where the loop was closed before the pool was left
        for fd in (self.output, self.page):
            if fd >= 0:
                os.close(fd)


class LocalEngine:
    """Runs one pool's workers."""

    # The whole state: the zygote, the workers alive, what workers were told of the paths.
    def __init__(
        self,
        driver: Driver,
        events: EngineEvents,
        config: ZygoteConfig,
        *,
        initializer: bytes = b"",
        log_level: int = 30,
    ) -> None:
        self._driver = driver
        self._events = events
        self._config = config
        self._initializer = initializer
        self._log_level = log_level
        self._workers: dict[int, _LocalWorker] = {}
        self._zygote: ZygoteHandle | None = None
        self._preloaded_cloudpickle = False
        self._losses = 0  # zygotes lost since a worker was last ready
        self._paths: tuple[list[str], str] = ([], "")
        self._closing = False
        self._changed: anyio.Event

    async def open(self) -> None:
        """Begin: start the zygote."""
        self.start()

    def start(self) -> None:
        """Start a zygote. It boots while the caller goes on."""
        self._paths = own_path(), self._cwd()
        self._zygote = ZygoteHandle(
            self._driver, self._config, self._zygote_said, self._zygote_ended
        )
        # Leaving takes anyio with its backend for this loop, whose import takes long: less than
        # the zygote's boot, meanwhile.
        import anyio

        self._changed = anyio.Event()

    def pid(self, worker: int) -> int | None:
        """Return a worker's process id, once it is known."""
        found = self._workers.get(worker)
        return found.pid if found is not None else None

    def resident_memory(self, worker: int, *, tree: bool = False) -> int:
        """Return the bytes that a worker holds (with its descendants), 0 if it is gone."""
        return resident_memory(self.pid(worker), tree=tree)

    def programs(self, worker: int) -> Mapping[int, int]:
        """Return the bytes that each agent program of a host worker takes, by its pid."""
        return programs_of(self.pid(worker))

    # Commands.

    def start_worker(self, worker: int, kind: Kind) -> None:
        """Start a worker. Raises `OSError` when there are no more descriptors for it."""
        assert self._zygote is not None
        ours, output, page, passed = _descriptors()
        connection = Connection(
            self._driver,
            ours,
            lambda frame: self._worker_sent(worker, frame),
            lambda: self._worker_closed(worker),
            after=self._events.settle,
        )
        self._workers[worker] = _LocalWorker(kind, connection, output, page)
        self._zygote.send(wire.Fork(worker, kind == "host"), passed)
        welcome = wire.Welcome(
            wire.VERSION, worker, *self._paths, self._log_level, self._initializer, authkey()
        )
        connection.send(wire.encode(welcome))

    def ship(self, worker: int, jobs: Sequence[Shipment]) -> None:
        """Send calls to a worker, with the functions it does not have yet."""
        target = self._workers.get(worker)
        if target is None:
            return
        for message in pack(jobs, target.kind, target.functions, target.arena.inbox):
            target.connection.send(*message)

    def forget(self, functions: Sequence[int], sessions: Sequence[int]) -> None:
        """Tell workers that functions and sessions will not be named again."""
        body = wire.encode(wire.Forget(list(functions), list(sessions)))
        for target in self._workers.values():
            target.functions.difference_update(functions)
            target.connection.send(body)

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
        if self._zygote is not None:
            self._zygote.send(wire.Kill(worker, only, _KILL_GRACE))
            self._zygote.give_up()

    def bound_outputs(self) -> None:
        """Keep what workers print, and what they left running prints, from filling memory."""
        for target in self._workers.values():
            bound(target.output)

    def prepare_by_value(self) -> None:
        """Have later workers start with cloudpickle imported, since they will need it."""
        if not self._preloaded_cloudpickle and self._zygote is not None:
            self._preloaded_cloudpickle = True
            self._zygote.send(wire.Preload(["cloudpickle"]))

    def follow_paths(self) -> None:
        """Tell workers when ``sys.path`` or the working directory has changed."""
        before = self._paths
        cwd = self._cwd()
        if sys.path != before[0] or cwd != before[1]:
            self._paths = own_path(), cwd
            if self._paths != before:
                for worker in self._workers:
                    self._send(worker, wire.Paths(*self._paths))

    def _cwd(self) -> str:
        if self._config.cwd is not None:
            return self._config.cwd
        try:
            return os.getcwd()  # noqa: PTH109  # asked before each shipment, at half the cost
        except OSError:  # it was removed; workers stay where they are
            return self._paths[1] or os.curdir

    def _send(self, worker: int, message: wire.ToWorker) -> None:
        target = self._workers.get(worker)
        if target is not None:
            target.connection.send(wire.encode(message))

    # What workers and the zygote say.

    def _worker_sent(self, worker: int, frame: Frame) -> None:
        body, buffers = frame
        message = wire.decode_from_worker(body)
        if isinstance(message, wire.Answers):
            first = message.answers[0]
            if first.shared is not None:
                self._take_shared(worker, first)
            else:
                self._events.worker_answered(worker, message.answers, buffers)
        elif isinstance(message, wire.Said):
            self._events.worker_said(worker, message)
        elif isinstance(message, wire.GaveBack):
            self._events.worker_gave_back(worker, message.tickets, message.running)
        elif isinstance(message, wire.Ready):
            self._losses = 0
            self._workers[worker].pid = message.pid
            self._events.worker_ready(worker)
        else:
            self._events.worker_refused(message)

    def _take_shared(self, worker: int, answer: wire.Answer) -> None:
        """Take an answer whose value lies in shared memory; such a one comes alone."""
        outbox = self._workers[worker].arena.outbox
        assert answer.shared is not None
        try:
            self._events.worker_answered(worker, [answer], outbox.get(answer.shared))
        finally:
            outbox.release(answer.shared)

    def _zygote_said(self, message: wire.FromZygote) -> None:
        if isinstance(message, wire.Forked):
            target = self._workers.get(message.worker)
            if target is not None:
                target.pid = message.pid
        elif isinstance(message, wire.Exited):
            self._worker_ended(message.worker, message.status)
        elif isinstance(message, wire.Missed):
            self._events.worker_missed(message.worker)
        elif isinstance(message, wire.BootFailed):
            self._closing = True
            self._events.engine_failed(message.text, self._zygote_output())

    def _worker_closed(self, worker: int) -> None:
        """End a worker that sends what is no message; an end of its connection says nothing."""
        target = self._workers.get(worker)
        if target is not None and target.connection.fault:
            self.kill(worker, 0)

    def _worker_ended(self, worker: int, status: int | None) -> None:
        """Take in all that a worker left behind, then report its end."""
        target = self._workers.get(worker)
        if target is None:
            return
        target.connection.drain()
        page = read_page(target.page)
        said = tail(target.output, _TAIL).decode("utf-8", "replace")
        fault = target.connection.fault
        if page.answer_count:
            body = wire.answers_prefix(page.answer_count) + page.answers
            try:
                self._worker_sent(worker, (body, []))
            except msgspec.MsgspecError as wrong:  # a call wrote into the page too
                fault = f"{type(wrong).__name__}: {wrong}"
        if fault:
            said += f"\n[it sent what is no message of ours: {fault}]"
        del self._workers[worker]
        error = WorkerDied(
            target.pid,
            exitcode=os.waitstatus_to_exitcode(status)
            if status is not None and os.WIFEXITED(status)
            else None,
            signal=os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            stderr_tail=said,
        )
        target.close()
        self._events.worker_died(worker, page.running, error)
        self._note_change()

    def _zygote_ended(self) -> None:
        """The zygote is gone, and with it every worker: report them, and start another."""
        zygote, self._zygote = self._zygote, None
        if zygote is None:
            return
        said = zygote.said()
        zygote.close()
        closing = self._closing
        if not closing:
            self._losses += 1
            self._preloaded_cloudpickle = False
            if self._losses <= 3:
                self.start()
        pids = [one.pid for one in self._workers.values() if one.pid is not None]
        signal_all(pids, pids, signal.SIGKILL)  # where no death signal does it (macOS)
        for worker in list(self._workers):
            self._worker_ended(worker, None)
        if not closing and self._zygote is None:
            self._closing = True
            self._events.engine_failed(
                f"the process that starts workers ended at once, {self._losses} times", said
            )
        self._note_change()

    def _zygote_output(self) -> str:
        return self._zygote.said() if self._zygote is not None else ""

    # The end.

    async def close(self) -> None:
        """Let idle workers exit, end the others, and return when nothing is left."""
        import anyio

        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_RETIRE_GRACE):
                for worker in list(self._workers):
                    self.retire(worker)
                while self._workers and self._zygote is not None and self._zygote.booted:
                    await self._change()
            await self.kill_all()

    async def kill_all(self) -> None:
        """End every worker and what it started; return when nothing is left."""
        import anyio

        self._closing = True
        with anyio.CancelScope(shield=True):
            if self._zygote is not None:
                self._zygote.connection.finish()
                self._zygote.give_up()
            with anyio.move_on_after(_ZYGOTE_GRACE):
                while self._zygote is not None:
                    await self._change()
            self._zygote_ended()

    async def _change(self) -> None:
        await self._changed.wait()

    def _note_change(self) -> None:
        import anyio

        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _descriptors() -> tuple[socket.socket, int, int, list[int]]:
    """Return our end, output and page of a new worker, and its own three; all of them or none."""
    opened: list[int] = []
    try:
        ours, theirs = socket.socketpair()
        opened += [ours.detach(), theirs.detach()]
        opened.append(output_file(anonymous_file("hmz-mp-output")))
        opened.append(anonymous_file("hmz-mp-page"))
        for fd in opened[2:4]:
            opened.append(os.dup(fd))
        spare: list[int] = []
        try:  # the rest of the program has to open something too
            for _ in range(_SPARE_DESCRIPTORS):
                spare.append(os.dup(opened[0]))
        finally:
            for fd in spare:
                os.close(fd)
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return socket.socket(fileno=opened[0]), opened[2], opened[3], [opened[1], *opened[4:]]
