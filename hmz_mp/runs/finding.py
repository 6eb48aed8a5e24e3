"""Finding runs by what people say of them: an id, its beginning, "last".

Imported by commands, and by whoever resumes a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.schema import DATABASE
from hmz_mp.runs.summaries import RunSummary

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["find_run", "list_runs", "open_run"]

_LISTED = 10


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """Return the runs in ``runs_dir``, newest first; none if there is no such directory."""
    found = []
    for directory in _directories(runs_dir):
        try:
            with RecordedRun(directory) as run:
                found.append(run.forecast())
        except BadInput as error:
            found.append(RunSummary(directory.name, directory, "unreadable", problem=str(error)))
    return found


def open_run(runs_dir: Path, run: str) -> RecordedRun:
    """Return the run that `find_run` finds, open; raises `BadInput` when it cannot be read too."""
    return RecordedRun(find_run(runs_dir, run))


def find_run(runs_dir: Path, run: str) -> Path:
    """Return the directory of the run of that id, or whose id begins so.

    "last" is the run that began last. Raises `BadInput`, which lists the runs there are, when
    there is none or more than one.
    """
    directories = _directories(runs_dir)
    if not directories:
        raise BadInput(f"there are no runs in {str(runs_dir)!r}")
    if run == "last":
        return directories[0]
    matching = [one for one in directories if run and one.name.startswith(run)]
    exact = [one for one in matching if one.name == run]
    if len(exact or matching) != 1:
        raise BadInput(_which(run, matching, directories))
    return (exact or matching)[0]


def _directories(runs_dir: Path) -> list[Path]:
    try:
        entries = list(runs_dir.iterdir())
    except OSError:
        return []
    return sorted((one for one in entries if (one / DATABASE).is_file()), reverse=True)


def _which(run: str, matching: list[Path], everything: list[Path]) -> str:
    if matching:
        said, listed = f"{run!r} is the beginning of {len(matching)} runs", matching
    else:
        said, listed = f"there is no run {run!r}", everything
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"{said}; there are: {', '.join(one.name for one in listed[:_LISTED])}{more}"
