"""What ``hmz-mp bench`` shows: where it is, on standard error, and its tables.

Imported by ``cli.bench_runs``. What the tables say is in ``hmz_mp_bench.tables``.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hmz_mp.runs.words import duration
from hmz_mp.terminal import make_console, printable, safe_text, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.live import Live

    from hmz_mp_bench.tables import Table

__all__ = ["Where", "print_table", "stoppable"]

PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


@contextmanager
def stoppable() -> Iterator[None]:
    """Have SIGTERM and SIGHUP do what Ctrl-C does: end what is measured, and show what there is."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(one, signal.default_int_handler) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


class Where:
    """Says on standard error what is measured, how far that is, and how long it will take.

    On a terminal one line that is drawn over; elsewhere a line now and then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock()
        self._live: Live | None = None
        self._console = make_console() if sys.stderr is not None else None
        console = self._console
        if console is not None and console.is_terminal and not console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.start()

    def look(self, what: str, number: int, total: int, left: float) -> None:
        """Show that this is next, the ``number``-th of ``total``, ``left`` seconds to go."""
        line = f"{number}/{total}  {printable(what)}  about {duration(left)} left"
        if self._live is not None and self._console is not None:
            self._live.update(safe_text(shorten(line, self._console.width - 1)), refresh=True)
        elif self._console is not None and self._clock() >= self._next:
            self._next = self._clock() + PLAIN_SECONDS
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def close(self) -> None:
        """Leave the terminal as it was found; again does nothing."""
        if self._live is not None:
            self._live.stop()

    def __enter__(self) -> Where:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table on standard output, in what width there is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    console = console or make_console(stderr=False)
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for at, head in enumerate(table.heads):
        words = at == 0 or head in ("target", "")
        shown.add_column(head, justify="left" if words else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(safe_text, row))
    console.print(safe_text(table.title, "bold"))
    if table.rows:
        console.print(shown)
    for line in table.below:
        console.print(safe_text(f"  {line}", "dim"))
    console.print()
