"""What the scripted servers share: HTTP, events, the log of requests, a server in a thread."""

from __future__ import annotations

import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.model_servers.script import Plan, Step

__all__ = ["Handler", "ModelServer", "next_id", "serving"]

_numbers = itertools.count(1)


def next_id(prefix: str) -> str:
    """Return an id that was not given yet."""
    return f"{prefix}_{next(_numbers):08d}"


class ModelServer(ThreadingHTTPServer):
    """A server with a plan; ``requests`` are the bodies it was sent, with what was picked."""

    daemon_threads = True
    request_queue_size = 256  # many ask at the same moment

    def __init__(self, handler: type[Handler], script: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.plan = Plan(script)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def asked(self, prompt: str) -> int:
        """Return how many requests had this newest prompt."""
        return sum(one["prompt"] == prompt for one in self.requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that leave in the middle."""


class Handler(BaseHTTPRequestHandler):
    """Answers one connection. A service says in `answer` what its requests and answers are."""

    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
        """Say nothing."""

    def do_HEAD(self) -> None:  # http.server's names
        self.reply(200, {})

    def do_GET(self) -> None:
        self.reply(200, {"data": [], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.answer(self.path.partition("?")[0], raw, json.loads(raw or b"{}"))

    def answer(self, path: str, raw: bytes, body: dict[str, Any]) -> None:
        """Answer a request."""
        raise NotImplementedError

    def picked(self, prompt: str, done: int, cwd: str, body: dict[str, Any]) -> Step | None:
        """Log a request and return the step that answers it; ``None`` if it is answered."""
        step = self.server.plan.pick(prompt, done, cwd)
        sent = {"prompt": prompt, "step": step, "body": body, "headers": dict(self.headers)}
        self.server.requests.append(sent)
        self._hang(step.get("hang_s", 0) + step.get("delay_s", 0))
        if "status" not in step:
            return step
        headers = []
        if "retry_after" in step:
            headers.append(("retry-after", str(step["retry_after"])))
        self.reply(step["status"], self.error(step), headers)
        return None

    def _hang(self, seconds: float) -> None:
        """Wait, but not for a client that has left."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self.connection], [], [], left)
            if ready and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError

    def error(self, step: Step) -> dict[str, Any]:
        """Return the body of an error."""
        raise NotImplementedError

    def reply(self, status: int, body: Any, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a whole answer."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("content-type", "application/json"), *headers):
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def start_events(self) -> None:
        """Begin an answer of events, which ends with the connection."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, kind: str, **data: Any) -> None:
        """Send one event."""
        text = json.dumps({"type": kind, **data})
        self.wfile.write(f"event: {kind}\ndata: {text}\n\n".encode())
        self.wfile.flush()

    def data(self, what: Any) -> None:
        """Send one event that has no name."""
        text = what if isinstance(what, str) else json.dumps(what)
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()


@contextmanager
def serving(handler: type[Handler], script: dict[str, Any]) -> Iterator[ModelServer]:
    """Run a server in a thread."""
    with ModelServer(handler, script) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
