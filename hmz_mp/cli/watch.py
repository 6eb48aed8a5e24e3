"""``hmz-mp watch``: a run on a full screen, from any terminal, while it goes on or after."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hmz_mp.cli.run_argument import RunParam
from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.reading import RecordedRun, open_run

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["need_a_screen", "watch_command"]


@click.command("watch", short_help="Watch a run on a full screen.")
@click.argument("run", metavar="[RUN]", default="last", type=RunParam())
def watch_command(run: str) -> None:
    """Watch RUN, by default the last one, on a full screen: while it goes on, or after.

    A line for each agent; the conversation that is read below. Tab and shift+tab step between those
    that work now, the arrow keys and page keys scroll, f shows what failed, q leaves. Ctrl+C twice
    stops the run, wherever it goes on, as Ctrl+C there would.

    It needs textual: pip install 'hmz-mp[tui]'.

    \b
    Examples:
      hmz-mp watch
      hmz-mp watch 20261129-182334-4f2a
    """
    need_a_screen()
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        directory = recorded.directory
    from hmz_mp.watching.screen import Abilities, WatchApp

    WatchApp(directory, Abilities(stop=_stopper(directory))).run()


def need_a_screen() -> None:
    """Raise `BadInput` where there is no terminal, or no textual."""
    if find_spec("textual") is None:
        raise BadInput("a full screen needs textual; install it with pip install 'hmz-mp[tui]'")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput("a full screen needs a terminal; hmz-mp show shows a run as text")


def _stopper(directory: Path) -> Callable[[], None]:
    def stop() -> None:
        with suppress(BadInput, ProcessLookupError, PermissionError):
            with RecordedRun(directory) as run:  # whether it goes on, in the process that it says
                pid = run.process if run.summary.status == "running" else None
            if pid is not None:
                os.kill(pid, signal.SIGTERM)

    return stop
