"""What is shown while a run goes on: a bar on a terminal, a line now and then elsewhere.

Owns the displays. Imported by ``cli.beginning``. A display is looked at a few times a second and
reads the run's tally then, so that a turn costs it nothing.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, nullcontext
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from hmz_mp.cli.pace import Pace
from hmz_mp.runs.words import duration
from hmz_mp.terminal import make_console, printable, safe_text, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from rich.console import Console, Group
    from rich.text import Text

    from hmz_mp.core.ambient import TurnRecord
    from hmz_mp.core.turns import Progress
    from hmz_mp.runs.tally import Tally

__all__ = ["BarDisplay", "Display", "LineDisplay", "NoDisplay", "make_display"]

PLAIN_SECONDS = 5.0
MOST_ROWS = 8  # items shown as running
NOTHING_FOUND: Mapping[str, int] = MappingProxyType({})


class Display(Protocol):
    """Shows a run as it goes on, on standard error."""

    def look(self, tally: Tally, widths: Mapping[str, int] = NOTHING_FOUND) -> None:
        """Show where the run is, if it is time to.

        ``widths`` is how many turns may run at once now, by whom that was found out of.
        """

    def aside(self) -> AbstractContextManager[object]:
        """Keep out of the way while something else is written to the terminal."""

    def close(self) -> None:
        """Leave the terminal as it was found; again does nothing."""


def make_display(clock: Callable[[], float], *, quiet: bool) -> Display:
    """Return the display that suits standard error."""
    if quiet or sys.stderr is None:
        return NoDisplay()
    console = make_console()
    if console.is_terminal and not console.is_dumb_terminal:
        return BarDisplay(console, clock)
    return LineDisplay(lambda line: print(line, file=sys.stderr, flush=True), clock)  # noqa: T201


class NoDisplay:
    """Shows nothing."""

    def look(self, tally: Tally, widths: Mapping[str, int] = NOTHING_FOUND) -> None:
        """Show nothing."""

    def aside(self) -> AbstractContextManager[object]:
        """Nothing is in the way."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is open."""


class LineDisplay:
    """Writes one line every ``interval`` seconds."""

    def __init__(
        self,
        write: Callable[[str], object],
        clock: Callable[[], float],
        interval: float = PLAIN_SECONDS,
    ) -> None:
        self._write = write
        self._clock = clock
        self._interval = interval
        self._pace = Pace(clock())
        self._next = clock() + interval

    def look(self, tally: Tally, widths: Mapping[str, int] = NOTHING_FOUND) -> None:
        """Write a line when the interval has passed."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._interval
        self._pace.note(now, tally.ended)
        self._write(", ".join(figures(tally, self._pace, widths)))

    def aside(self) -> AbstractContextManager[object]:
        """Lines are in nobody's way."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is open."""


class BarDisplay:
    """Draws a bar, the figures and the running items, and draws over them at each look."""

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        from rich.live import Live

        self._console = console
        self._clock = clock
        self._wall = wall
        self._pace = Pace(clock())
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout is not None
            and sys.stdout.isatty(),  # a pipe gets what is printed as it is
            vertical_overflow="crop",
        )
        self._live.start()

    def look(self, tally: Tally, widths: Mapping[str, int] = NOTHING_FOUND) -> None:
        """Draw the run as it is now."""
        now = self._clock()
        self._pace.note(now, tally.ended)
        width, height = self._console.size
        rows = min(MOST_ROWS, max(0, height - 4))
        shown = picture(tally, self._pace, self._wall(), width, rows, widths)
        self._live.update(shown, refresh=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the picture away for as long as this is open."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def close(self) -> None:
        """Take the picture away."""
        self._live.stop()


def figures(tally: Tally, pace: Pace, widths: Mapping[str, int] = NOTHING_FOUND) -> list[str]:
    """Return the figures of a run, the most important first."""
    parts = [f"{tally.ended:,}/{tally.total:,} done"]
    if tally.failed:
        parts.append(f"{tally.failed:,} failed")
    parts.append(f"{len(tally.running):,} running")
    if tally.total - tally.ended > len(tally.running):
        parts += [f"{_first_word(name)}: at most {width:,}" for name, width in widths.items()]
    if tally.waiting:
        parts.append(f"{len(tally.waiting):,} waiting for their service")
    if pace.rate:
        parts.append(f"{pace.rate:,.1f}/s")
    left = pace.left(tally.total - tally.ended)
    if left is not None and tally.ended < tally.total:
        parts.append(f"{duration(left)} left")
    return parts


def _first_word(name: str) -> str:
    """Return the backend of an account's name, which may also have paths and settings."""
    return printable(name.split(maxsplit=1)[0] if name.strip() else name)


def picture(
    tally: Tally,
    pace: Pace,
    wall: float,
    width: int,
    rows: int,
    widths: Mapping[str, int] = NOTHING_FOUND,
) -> Group:
    """Return what a terminal of ``width`` columns shows, with at most ``rows`` running items.

    ``wall`` is the time of day, which records count in.
    """
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    width = max(width - 1, 1)  # some terminals wrap a line that fills the last column
    total = max(tally.total, 1)
    percent = f"{100 * tally.ended // total:>4}%"
    bar = Table.grid()
    bar.add_row(ProgressBar(total, tally.ended, width=max(width - len(percent), 1)), percent)
    style = "red" if tally.failed else ""
    lines = [
        safe_text(shorten(line, width), style)
        for line in _wrapped(figures(tally, pace, widths), width)
    ]
    oldest = list(islice(tally.running.values(), rows))
    running = [_running(one, tally.progress.get(one.number), wall, width) for one in oldest]
    return Group(bar, *lines, *running)


def _wrapped(parts: list[str], width: int) -> list[str]:
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _running(record: TurnRecord, progress: Progress | None, wall: float, width: int) -> Text:
    from rich.cells import cell_len

    seconds = max(0.0, wall - record.began_at) if record.began_at is not None else 0.0
    label = f"{duration(seconds):>7}  "
    if progress is not None:
        label += f"{progress.fraction:4.0%} {shorten(progress.words, width // 3)}  "
    shown = shorten(record.item_id, width - cell_len(label), keep="end")
    return safe_text(shorten(label + shown, width), "dim")
