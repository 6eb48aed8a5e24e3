"""Where workers put what goes with their engine: a directory that it names, and removes.

An engine names one where the coordinator, on another machine, could not remove what is left.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["SCRATCH", "here"]

SCRATCH = "HMZ_MP_SCRATCH"
_OURS = "hmz-mp-"


def here(folder: str) -> str:
    """Return where a folder is on this machine.

    One of ours, which the coordinator removes, is below the engine's directory, if there is one.
    """
    scratch, name = os.environ.get(SCRATCH), Path(folder).name
    return str(Path(scratch, name)) if scratch and name.startswith(_OURS) else folder
