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

    One of ours, which the coordinator removes, is below the engine's directory, if there is one;
    that is made then.
    """
    scratch, name = os.environ.get(SCRATCH), Path(folder).name
    if not scratch or not name.startswith(_OURS):
        return folder
    Path(scratch).mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(Path(scratch, name))
