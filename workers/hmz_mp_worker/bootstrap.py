"""The first of our code that a zygote's interpreter runs."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from hmz_mp_worker.reaper import stand_above

__all__ = ["main"]


def main(control_fd: int, coordinator: int) -> None:
    """Import what the zygote needs, and run it, below its reaper.

    msgspec imports typing_extensions where it finds it, and needs it only before Python 3.11; the
    import takes longer than msgspec itself, so it is hidden while msgspec loads.
    """
    stand_above(control_fd)
    gc.disable()  # until all is imported: collections take time, and leave holes in pages to share
    hidden = "typing_extensions"
    if hidden not in sys.modules:
        sys.modules[hidden] = None  # type: ignore[assignment]  # how an import is blocked
        try:
            import_module("msgspec.msgpack")
        finally:
            del sys.modules[hidden]
    import_module("hmz_mp_worker.zygote").main(control_fd, coordinator)
