"""The zygote: one clean, single-threaded process that forks workers, and ends them.

It imports once what workers need, freezes its heap, and forks a worker on demand. It is the only
parent of workers, so it alone reaps them, reports their exits, and may signal them by pid without
a race. When its coordinator is gone, however it went, it ends every worker with all they started.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Collection

from hmz_mp_worker import kernel, wire, worker
from hmz_mp_worker.between import changes
from hmz_mp_worker.framing import FrameReader, frame_parts, send_all
from hmz_mp_worker.page import running_ticket

__all__ = ["Zygote", "main"]

_FDS_AT_ONCE = 252  # SCM_RIGHTS carries at most 253
_HOSTS_ENDED = 256  # what they started is looked for; nothing takes so long to end as so many
_LOOK_FOR_PARENT = 1.0  # seconds between looks where there are no process descriptors


class _Worker:
    """A worker as the zygote knows it."""

    __slots__ = ("hard_at", "host", "marked", "number", "only", "page", "pid")

    def __init__(self, number: int, pid: int, page: int, *, host: bool) -> None:
        self.number = number
        self.pid = pid
        self.page = page
        self.host = host
        self.hard_at: float | None = None  # when KILL follows TERM
        self.only = 0  # the ticket of the call that both are for (0: whatever runs)
        self.marked: list[int] = []  # what it had started when TERM was sent


class Zygote:
    """Serves one coordinator until it is gone."""

    # The whole state: the live workers by pid, those that ended last of the workers which run
    # programs, and descriptors that came and were not used yet.
    def __init__(self, control: socket.socket, coordinator: int) -> None:
        self._control = control
        self._coordinator = coordinator
        self._parent_fd = kernel.open_process(coordinator)
        self._above = os.getppid()  # the coordinator, or the reaper between the two
        self._reader = FrameReader()
        self._descriptors: deque[int] = deque()
        self._workers: dict[int, _Worker] = {}
        self._hosts_ended: deque[int] = deque(maxlen=_HOSTS_ENDED)
        self._niceness = 0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Run until the coordinator is gone; then leave nothing behind."""
        poll = select.poll()
        watched = [self._control.fileno(), self._wake_read]
        if self._parent_fd is not None:
            watched.append(self._parent_fd)
        for fd in watched:
            poll.register(fd, select.POLLIN)
        try:
            while True:
                ready = {fd for fd, _ in poll.poll(self._patience())}
                self._reap()
                if self._parent_gone(ready) or (watched[0] in ready and not self._receive()):
                    return
                self._end_stubborn()
        except (ConnectionError, BrokenPipeError):
            return
        finally:
            self._end_everything()

    def _patience(self) -> float | None:
        """Return how many milliseconds the next wait may take."""
        waits = [one.hard_at - time.monotonic() for one in self._workers.values() if one.hard_at]
        if self._parent_fd is None:
            waits.append(_LOOK_FOR_PARENT)
        return max(0.0, min(waits)) * 1000 + 1 if waits else None

    def _parent_gone(self, ready: set[int]) -> bool:
        if self._parent_fd is not None:
            return self._parent_fd in ready
        return os.getppid() != self._above or not kernel.exists(self._coordinator)

    def _receive(self) -> bool:
        """Take in what the coordinator sends; return False at the connection's end."""
        data, fds, _, _ = socket.recv_fds(self._control, 1 << 16, _FDS_AT_ONCE)
        self._descriptors.extend(fds)
        if not data:
            return False
        target = self._reader.target()
        target[: len(data)] = data
        for body, _ in self._reader.received(len(data)):
            self._take(wire.decode_to_zygote(body))
        return True

    def _take(self, message: wire.ToZygote) -> None:
        if isinstance(message, wire.Fork):
            self._fork(message)
        elif isinstance(message, wire.Kill):
            self._kill(message)
        elif isinstance(message, wire.Preload):
            self._preload(message.modules)
        else:
            self._boot(message)

    def _say(self, message: wire.FromZygote) -> None:
        send_all(self._control, frame_parts(wire.encode(message)))

    def _boot(self, boot: wire.Boot) -> None:
        sys.path[:] = boot.sys_path
        self._niceness = boot.niceness
        if boot.version != wire.VERSION:
            self._say(
                wire.BootFailed(
                    f"the coordinator speaks version {boot.version} of the "
                    f"protocol, its workers {wire.VERSION}"
                )
            )
            return
        try:
            for module in boot.preload:
                importlib.import_module(module)
        except BaseException as error:  # a module of the user's may raise anything
            self._say(
                wire.BootFailed(f"preloading {module} raised {type(error).__name__}: {error}")
            )
            return
        self._freeze()
        self._say(wire.Booted(wire.VERSION, os.getpid()))

    def _preload(self, modules: list[str]) -> None:
        for module in modules:
            importlib.import_module(module)
        self._freeze()

    def _freeze(self) -> None:
        """Keep what is imported out of the collector's way, so that forks share its pages."""
        gc.freeze()  # not collected before, which takes longer than what it frees is worth
        gc.enable()

    def _fork(self, fork: wire.Fork) -> None:
        sock, output, page = (self._descriptors.popleft() for _ in range(3))
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(sock)
            os.close(output)
            os.close(page)
            self._say(wire.Exited(fork.worker, _status_of(error)))
            return
        if pid == 0:
            self._become_worker(fork, zygote, sock, output, page)
        os.close(sock)
        os.close(output)
        # Also here, since the child may not have come to it when the group is first signalled.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        self._workers[pid] = _Worker(fork.worker, pid, page, host=fork.host)
        if pid in self._hosts_ended:
            self._hosts_ended.remove(pid)  # the number is another's from now on
        self._say(wire.Forked(fork.worker, pid))

    def _become_worker(
        self, fork: wire.Fork, zygote: int, sock: int, output: int, page: int
    ) -> None:
        """Leave the zygote behind; never returns."""
        status = 1
        try:
            os.setpgid(0, 0)
            kernel.die_with_parent(zygote)
            signal.set_wakeup_fd(-1)
            for inherited in (
                self._control.detach(),
                self._wake_read,
                self._wake_write,
                self._parent_fd,
                *(one.page for one in self._workers.values()),
            ):
                if inherited is not None:
                    os.close(inherited)
            if not fork.host:  # those wait more than they compute
                os.nice(self._niceness)
            worker.serve(sock, output, page, host=fork.host)
            status = 0
        except (ConnectionError, BrokenPipeError):  # the coordinator is gone
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            worker.leave(status)

    def _kill(self, kill: wire.Kill) -> None:
        found = next((one for one in self._workers.values() if one.number == kill.worker), None)
        if found is None:
            return
        if kill.only and not self._runs(found, kill.only):
            self._missed(found, kill.only)
            return
        found.marked = kernel.descendants(found.pid)
        number = signal.SIGTERM if kill.grace > 0 else signal.SIGKILL
        kernel.signal_all([found.pid, *found.marked], [found.pid], number)
        if kill.grace > 0:
            found.only = kill.only
            found.hard_at = time.monotonic() + kill.grace
            kernel.signal_all([], [found.pid], signal.SIGCONT)

    def _runs(self, one: _Worker, ticket: int) -> bool:
        """Stop a worker, and return whether it runs ``ticket``; if not, it goes on.

        Stopped, it cannot begin its next call between the look and the signal.
        """
        os.kill(one.pid, signal.SIGSTOP)
        pid, status = os.waitpid(one.pid, os.WUNTRACED)
        if pid and not os.WIFSTOPPED(status):
            self._ended(one, status)
            return False
        if running_ticket(one.page) == ticket:
            return True
        os.kill(one.pid, signal.SIGCONT)
        return False

    def _missed(self, one: _Worker, ticket: int) -> None:
        """Say that a call ran no more when it was to be ended, if its worker has not ended too."""
        if one.pid in self._workers:
            self._say(wire.Missed(one.number, ticket))

    def _end_marked(self, one: _Worker) -> None:
        """Kill what a worker had started when TERM was sent, and is still there."""
        ours = kernel.descendants(os.getpid())
        kernel.signal_all([pid for pid in one.marked if pid in ours], [], signal.SIGKILL)
        one.marked = []

    def _end_stubborn(self) -> None:
        now = time.monotonic()
        for one in list(self._workers.values()):
            if one.hard_at is not None and one.hard_at <= now:
                one.hard_at = None
                if one.only and not self._runs(one, one.only):
                    # The call took SIGTERM and ended; what runs now is nobody's to end.
                    self._end_marked(one)
                    self._missed(one, one.only)
                    continue
                started = [*one.marked, *kernel.descendants(one.pid)]
                kernel.signal_all([one.pid, *started], [one.pid], signal.SIGKILL)

    def _reap(self) -> None:
        """Reap what has ended, workers and adopted orphans, and report the workers."""
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._workers:
                self._ended(self._workers[pid], status)
            else:
                self._end_orphans_of(self._hosts_ended)

    def _ended(self, one: _Worker, status: int) -> None:
        """Report a worker's end, after ending what it started and left running."""
        del self._workers[one.pid]
        os.close(one.page)
        left = [pid for pid in one.marked if pid in kernel.descendants(os.getpid())]
        kernel.signal_all(left, [one.pid], signal.SIGKILL)
        self._end_orphans_of([one.pid])
        if one.host:
            self._hosts_ended.append(one.pid)
        self._say(wire.Exited(one.number, status))

    def _end_orphans_of(self, workers: Collection[int]) -> None:
        """Kill what programs of these workers, which have ended, left running.

        A program that ends in the middle of a look hands on what it started, which is not seen
        then. So it is looked again whenever an orphan has ended.
        """
        if workers:
            adopted = [pid for pid in kernel.children(os.getpid()) if pid not in self._workers]
            kernel.signal_all(kernel.marked_by(workers, adopted), [], signal.SIGKILL)

    def _end_everything(self) -> None:
        """Kill every process below this one, those that left their process groups too."""
        kernel.end_descendants(self._workers)


def _status_of(error: OSError) -> int:
    """Return a wait status for a worker that could not even be forked."""
    return (error.errno or errno.EAGAIN) << 8


def main(control_fd: int, coordinator: int) -> None:
    """Run a zygote on its inherited control connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    changes.watch()
    kernel.adopt_orphans()
    control = socket.socket(fileno=control_fd)
    control.setblocking(True)
    os.set_inheritable(control_fd, False)
    Zygote(control, coordinator).serve()
