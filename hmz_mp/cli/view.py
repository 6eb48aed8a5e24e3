"""The full screen of ``exec --watch``: a display that takes keys, beside the run on its loop.

Imported by ``cli.beginning``. When the user leaves it the run goes on, shown as
without it.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio

from hmz_mp.cli.progress import NOTHING_FOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hmz_mp.cli.progress import Display
    from hmz_mp.runs.run import Run
    from hmz_mp.runs.tally import Tally
    from hmz_mp.watching.screen import WatchApp

__all__ = ["View"]

_LEAVING_SECONDS = 5.0


class View:
    """The screen, and what is shown once it was left. ``make_display`` makes the latter."""

    def __init__(self, directory: Path, make_display: Callable[[], Display]) -> None:
        self._directory = directory
        self._make_display = make_display
        self._display: Display | None = None
        self._app: WatchApp | None = None
        self._left = anyio.Event()
        self._is_over = False

    @property
    def is_open(self) -> bool:
        """Whether the screen is taken."""
        return self._app is not None and not self._left.is_set()

    async def run(self, run: Run, stop: Callable[[], None]) -> None:
        """Show the run until the user leaves, or `leave` is called."""
        from hmz_mp.watching.screen import Abilities, WatchApp

        abilities = Abilities(stop, run.interject, lambda: run.tally.total)
        self._app = WatchApp(self._directory, abilities)
        try:
            await self._app.run_async()
        except Exception as error:  # whatever it is, the run goes on without its screen
            self._app.printed.append((f"hmz-mp: the screen failed: {error!r}\n", True))
        finally:
            self._left.set()
            for text, to_stderr in self._app.printed:
                (sys.stderr if to_stderr else sys.stdout).write(text)

    async def leave(self) -> None:
        """Give the screen back, and return when it is."""
        self._is_over = True
        if self._app is not None and self.is_open:
            self._app.exit()
            with anyio.move_on_after(_LEAVING_SECONDS):
                await self._left.wait()

    # As a Display

    def look(self, tally: Tally, widths: Mapping[str, int] = NOTHING_FOUND) -> None:
        """Show where the run is, if the screen was left; it looks by itself."""
        if self._app is None or self.is_open or self._is_over:
            return
        if self._display is None:
            self._display = self._make_display()
        self._display.look(tally, widths)

    def aside(self) -> AbstractContextManager[object]:
        """Keep out of the way while something else is written."""
        return nullcontext() if self._display is None else self._display.aside()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        if self._display is not None:
            self._display.close()
