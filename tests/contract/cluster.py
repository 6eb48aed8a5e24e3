"""A real Dask cluster on loopback: a scheduler, and workers that come and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers import wait_until

_CONFIG = {
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
    "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False",
}
_HIDING = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


class LoopbackCluster:
    """One scheduler, and workers of some threads each, in processes of their own.

    ``settings`` are variables of Dask's own.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings or {}
        self._file = folder / "scheduler.json"
        self._log = (folder / "log").open("ab")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(self._file)
        )
        wait_until(self._is_written, 40)
        address: Any = json.loads(self._file.read_text())["address"]
        self.address = str(address).partition("://")[2]

    def _is_written(self) -> bool:
        assert self.scheduler.poll() is None, self.said()
        return self._file.exists() and self._file.read_text().rstrip().endswith("}")

    def add_worker(
        self, threads: int = 2, *, nanny: bool = False, hidden: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a worker, below a nanny or not; it joins while the caller goes on.

        It sees nothing of what is in the directory ``hidden``, as if it were on another machine.
        """
        worker = self._start(
            "dask_worker",
            *("--scheduler-file", str(self._file), "--nanny" if nanny else "--no-nanny"),
            "--no-dashboard",
            *("--nthreads", str(threads), "--local-directory", str(self._folder)),
            before=[] if hidden is None else [*_HIDING, str(hidden)],
        )
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, count: int) -> None:
        """Return once so many are registered."""
        wait_until(lambda: self.said().count("Register worker") >= count, 40)

    def _start(
        self, module: str, *args: str, before: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", *args]
        return subprocess.Popen(
            [*before, *command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **_CONFIG, **self._settings},
            cwd=self._folder,
        )

    def said(self) -> str:
        """Return what the cluster's processes wrote."""
        return (self._folder / "log").read_text()

    def close(self) -> None:
        """End all of it."""
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(10)
        self._log.close()
