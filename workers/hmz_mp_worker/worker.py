"""From a fresh fork to a serving worker, and out of it again."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import socket
import sys
from typing import NoReturn

from hmz_mp_worker import running, state, stdio, wire
from hmz_mp_worker.arena import Arena
from hmz_mp_worker.calls import CallWorker
from hmz_mp_worker.framing import FrameReader
from hmz_mp_worker.link import Link
from hmz_mp_worker.page import Page

__all__ = ["leave", "serve"]

# Our descriptors stand above this, out of the way of code that closes or reuses low numbers.
_DESCRIPTORS_FROM = 200


def serve(sock_fd: int, output_fd: int, page_fd: int, *, host: bool) -> None:
    """Serve the coordinator on these descriptors until it is done with this worker."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the coordinator's to handle
    output = _move_up(output_fd)
    stdio.redirect(output)
    sock = socket.socket(fileno=_move_up(sock_fd))
    sock.setblocking(True)
    page = Page(page_fd)
    arena = Arena(page_fd).open()
    os.close(page_fd)
    _reseed()
    os.register_at_fork(after_in_child=_note_fork)
    link = Link(sock, page, arena.outbox)
    if running.set_up(_receive_welcome(sock), link):
        taken = stdio.Output(output)
        if host:
            from hmz_mp_worker.turns import HostWorker

            HostWorker(sock, link, taken, arena.inbox).run()
        else:
            CallWorker(sock, link, taken, arena.inbox).run()


def _move_up(fd: int) -> int:
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS_FROM)
    except OSError:  # the limit of open files is lower than that
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def _receive_welcome(sock: socket.socket) -> wire.Welcome:
    """Read exactly the first frame, so that what follows it stays in the socket."""
    head = _receive_exactly(sock, 8)
    body_length = int.from_bytes(head[:4], "little")
    reader = FrameReader(len(head) + body_length)
    data = head + _receive_exactly(sock, body_length)
    reader.target()[: len(data)] = data
    ((body, _),) = reader.received(len(data))
    message = wire.decode_to_worker(body)
    if not isinstance(message, wire.Welcome):
        raise RuntimeError(f"the first message is {type(message).__name__}, not Welcome")
    return message


def _receive_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("the coordinator is gone")
        data += piece
    return bytes(data)


def _note_fork() -> None:
    state.process.forked = True


def _reseed() -> None:
    """Give this worker random numbers of its own where a preloaded library would share them."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def leave(status: int) -> NoReturn:
    """End this process as Python would, but without waiting for threads the calls left."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)
