"""A headless Chromium, spoken to over pipes in its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 30.0
# The browser reads from descriptor 3 and writes to 4.
START = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'


def find_browser() -> str | None:
    """Return where a Chromium is, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page in a browser of its own; a context manager.

    ``events`` is what it told so far: what the page logged, asked the network for, and the like.
    """

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        arguments += ["--disable-dev-shm-usage", "--remote-debugging-pipe"]
        arguments += [f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", START, "bash", str(to_read), str(to_write), *arguments],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._last = 0
        self._session: str | None = None

    def __enter__(self) -> Browser:
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        attached = self.do("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        for child in children:
            child.kill() if child.is_running() else None
        psutil.wait_procs(children, SECONDS)
        os.close(self._read)
        os.close(self._write)

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have something done, and return what it says."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, page: Path) -> None:
        """Go to a page and wait until it is loaded."""
        self.events.clear()
        self.do("Page.navigate", url=page.as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._message())

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited if need be."""
        done = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def shot(self, file: Path) -> None:
        """Write what is to be seen as a PNG."""
        file.write_bytes(base64.b64decode(self.do("Page.captureScreenshot")["data"]))

    def size(self, width: int, height: int) -> None:
        """Give the page so many pixels."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert readable, "the browser says nothing"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has gone"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message
