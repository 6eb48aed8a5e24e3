"""A worker's side of its connection: answers out, in packs; whatever a turn says, at once.

Answers wait on the shared `page` and are sent together: when nothing else is queued, when half a
millisecond has passed, when the page is full, and by a watching thread when a call takes long.
The one lock keeps two threads from sending at once.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from time import monotonic

import msgspec.structs

from hmz_mp_worker import wire
from hmz_mp_worker.arena import Region
from hmz_mp_worker.framing import Buffer, frame_parts, send_all
from hmz_mp_worker.page import Page

__all__ = ["Link"]

_FLUSH_AFTER = 0.0005  # seconds that an answer waits at most while short calls follow it


class Link:
    """Sends what one worker has to say. Any thread of the worker may use it."""

    __slots__ = ("_last", "_lock", "_outbox", "_page", "_sock", "begin")

    def __init__(self, sock: socket.socket, page: Page, outbox: Region) -> None:
        self._sock = sock
        self._page = page
        self._outbox = outbox
        self._lock = threading.RLock()
        self._last = 0.0
        self.begin = page.begin  # to be told of each call that begins

    def answer(self, answer: wire.Answer, buffers: Sequence[Buffer] = ()) -> None:
        """Send a call's answer, or keep it to be sent with the next ones."""
        with self._lock:
            if not buffers and self._page.add(wire.encode_answer(answer)):
                if answer.began + answer.seconds - self._last > _FLUSH_AFTER:
                    self.flush()
                return
            self.flush()
            if buffers and (where := self._outbox.put(buffers)) is not None:
                answer, buffers = msgspec.structs.replace(answer, shared=where), ()
            self._send(wire.Answers([answer]), buffers)
            self._page.begin(0)

    def flush(self) -> None:
        """Send the answers kept."""
        with self._lock:
            page = self._page
            self._last = monotonic()
            if page.count:
                body = wire.answers_prefix(page.count) + page.content()
                send_all(self._sock, frame_parts(body))
                page.clear()

    def say(self, ticket: int, kind: str, data: bytes) -> None:
        """Send what a running turn says, after the answers that came before it."""
        self.send(wire.Said(ticket, kind, data))

    def send(self, message: wire.FromWorker) -> None:
        """Send a message, after the answers that came before it."""
        with self._lock:
            self.flush()
            self._send(message)

    def _send(self, message: wire.FromWorker, buffers: Sequence[Buffer] = ()) -> None:
        send_all(self._sock, frame_parts(wire.encode(message), buffers))
