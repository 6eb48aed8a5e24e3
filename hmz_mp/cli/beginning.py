"""What a run needs before its first turn: its ledger, and a display.

Imported by ``cli.conduct``. What is written down of a line is what `--resume` reads again.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from hmz_mp.cli.progress import make_display
from hmz_mp.cli.resuming import as_given, take_up
from hmz_mp.cli.view import View
from hmz_mp.runs import runs_directory
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.ledger import Ledger
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from hmz_mp.cli.checks import Checked
    from hmz_mp.cli.progress import Display
    from hmz_mp.runs.reading import RecordedRun

__all__ = ["display_for", "ledger_for", "say"]


def ledger_for(checked: Checked) -> tuple[Ledger, RecordedRun | None]:
    """Return a new ledger, or that of the run that goes on, and this run as it was left."""
    options = checked.options
    beginning = Beginning(
        command=["hmz-mp", *sys.argv[1:]],
        flow=options.flow,
        agents=options.agents,
        task=options.task,
        options=_recorded(checked),
    )
    if options.resume is not None:
        return take_up(checked, beginning, _say_unrecorded)
    runs_dir = runs_directory(checked.root)
    return Ledger.create(runs_dir, **beginning._asdict(), on_error=_say_unrecorded), None


def _recorded(checked: Checked) -> dict[str, object]:
    options = checked.options
    return {
        "given": as_given(options),
        "include": options.include,
        "exclude": options.exclude,
        "changed_since": options.changed_since,
        "items": options.items,
        "at_once": checked.at_once,
        "workers": checked.workers,
        "engine": options.engine,
        "timeout": options.timeout,
        "retries": options.retries,
        "max_failures": options.max_failures,
        "max_cost": options.budget.max_cost or None,
        "max_tokens": options.budget.max_tokens or None,
        "worktree": options.worktree,
        "ship": options.ship,
        "ship_also": options.ship_also,
    }


def display_for(checked: Checked, ledger: Ledger) -> Display:
    """Return what shows how the run goes."""

    def usual() -> Display:
        return make_display(time.monotonic, quiet=checked.options.quiet)

    # Without a ledger there is nothing to look at.
    if not checked.options.watch or ledger.error is not None:
        return usual()
    return View(ledger.directory, usual)


def _say_unrecorded(reason: str) -> None:
    say(f"hmz-mp: {printable(reason)}")


def say(line: str) -> None:
    """Write a line on standard error; not with click's echo, which would write past a bar."""
    if sys.stderr is not None:  # as it is when the caller closed it
        sys.stderr.write(line + "\n")
