"""Where results that are too long for a model are kept whole.

In a run that is its directory, beside its ledger; elsewhere a directory for temporary files.
Imported by ``dispatch``.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp.core.ambient import current_run

if TYPE_CHECKING:
    from hmz_mp.core.ambient import RunContext

__all__ = ["Keeper"]


class Keeper:
    """Writes texts to files of their own, in ``directory`` if there is one.

    Its whole state: where files go when there is no run and nobody has said where.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory = None if directory is None else Path(directory)
        self._temporary: Path | None = None

    def keep(self, name: str, text: str) -> str:
        """Write a text and return where it is; only this user may read it. Raises `OSError`.

        In the directory of a run it is without secrets, as all that is written down there.
        """
        run = current_run()
        for folder, kept in ((self._directory, text), *_of(run, text)):
            if folder is not None:
                with suppress(OSError):
                    folder.mkdir(parents=True, exist_ok=True)
                    return _written(folder, name, kept)
        if self._temporary is None or not self._temporary.is_dir():
            self._temporary = Path(tempfile.mkdtemp(prefix="hmz-mp-results-"))
        return _written(self._temporary, name, text)


def _of(run: RunContext | None, text: str) -> list[tuple[Path, str]]:
    """Return where a run keeps a text, and how."""
    if run is None or run.directory is None:
        return []
    return [(run.directory / "results", run.masked(text))]


def _written(folder: Path, name: str, text: str) -> str:
    number, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".txt", dir=folder)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
    return path
