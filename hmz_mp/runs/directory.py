"""A directory for each run, named by when it began. Imported by ``hmz_mp.runs`` only."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["make_run_directory", "run_id_at"]

_TRIES = 1000


def run_id_at(moment: float) -> str:
    """Return the id of a run that began at ``moment`` (``time.time()``), in UTC.

    Ids sort by time: the last four digits are the 65,536ths of the second.
    """
    fraction = int(moment % 1 * 0x10000)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(moment))}-{fraction:04x}"


def make_run_directory(runs_dir: Path) -> Path:
    """Make and return a new directory in ``runs_dir``; its name is the run's id.

    Two runs never share one: making a directory that exists fails, and the later run takes a
    later id. Raises `OSError` when it cannot be made.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    _keep_out_of_git(runs_dir)
    for _ in range(_TRIES):
        directory = runs_dir / run_id_at(time.time())
        with suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise FileExistsError(f"no new run could be named in {str(runs_dir)!r}")


def _keep_out_of_git(runs_dir: Path) -> None:
    # Only a directory that is ours is hidden whole: `runs_dir` may have been put anywhere.
    ours = runs_dir.parent if runs_dir.parent.name == ".hmz-mp" else runs_dir
    with suppress(FileExistsError), (ours / ".gitignore").open("x", encoding="ascii") as file:
        file.write("*\n")
