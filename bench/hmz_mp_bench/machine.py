"""What the figures were measured on and with. Names no host and no user."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

import psutil

from hmz_mp.core.cpus import usable_cpus
from hmz_mp_bench.registry import CONTENDERS, version

__all__ = ["about"]

_ALSO = ("hmz-mp", "msgspec", "cloudpickle", "anyio", "trio")


def about() -> dict[str, Any]:
    """Return the machine, the interpreter, the versions of everything, and how busy it is."""
    distributions = {*_ALSO, *(one.distribution for one in CONTENDERS.values() if one.distribution)}
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cpus": usable_cpus(),
        "memory": psutil.virtual_memory().total,
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in sorted(distributions)},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
