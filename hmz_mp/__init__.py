"""hmz_mp: a fan-out executor for agent turns and the CPU-heavy tools that run beside them.

``Pool`` ships calls to worker processes and answers through awaitable turns; ``tool`` makes a
function one that runs there; ``current_pool``, ``session_state`` and ``progress`` are for code
inside a run or a worker. Everything else is in the modules: ``hmz_mp.agents``, ``hmz_mp.flows``,
``hmz_mp.fanin``, ``hmz_mp.dispatch``, ``hmz_mp.errors``, ``hmz_mp.futures``.

Names load on first use, so that a worker that imports a user's module does not pay for the
coordinator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hmz_mp.core.ambient import current_pool
    from hmz_mp.core.pool import Pool
    from hmz_mp.tools import tool
    from hmz_mp_worker.reporting import progress
    from hmz_mp_worker.state import session_state

__all__ = ["Pool", "current_pool", "progress", "session_state", "tool"]
__version__ = "0.1.0"

_HOMES = {
    "Pool": "hmz_mp.core.pool",
    "current_pool": "hmz_mp.core.ambient",
    "progress": "hmz_mp_worker.reporting",
    "session_state": "hmz_mp_worker.state",
    "tool": "hmz_mp.tools",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hmz_mp' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
