"""``hmz-mp watch``: a run on a full screen, or as JSON, while it goes on or after."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from hmz_mp.cli.output import give_up_stdout
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.cli.runs import run_object
from hmz_mp.errors import BadInput
from hmz_mp.report.rows import full_row
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import find_run, open_run
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.watching.changes import RunBegins, RunEnds, TurnChanges, changes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["need_a_screen", "watch_command"]


_TURN_FIELDS = (  # of `full_row`
    *("number", "item_id", "status", "answer", "error", "seconds", "attempts", "worker", "usage"),
    *("agent", "session", "place", "submitted_at", "began_at", "ended_at"),
)
_END_FIELDS = ("run_id", "status", "exit_code", "ended_at", "seconds", "counts", "problem")


@click.command("watch", short_help="Watch a run on a full screen, or as JSON.")
@click.argument("run", metavar="[RUN]", default="last", type=RunParam())
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change; see above.")
def watch_command(run: str, as_json: bool) -> None:
    """Watch RUN, by default the last one, on a full screen: while it goes on, or after.

    A line for each agent; the conversation that is read below. Tab and shift+tab step between those
    that work now, the arrow keys and page keys scroll, f shows what failed, q leaves. Ctrl+C twice
    stops the run, wherever it goes on, as Ctrl+C there would. It needs textual:
    pip install 'hmz-mp[tui]'.

    With --json, without a screen, one object per line: the run as it stands ("type": "run"), each
    of its turns as it is ("turn"), each again when it changes, and last "end", with "status" and
    "counts". Ctrl+C ends the watching, not the run. docs/runs.md has the fields.

    \b
    Examples:
      hmz-mp watch
      hmz-mp watch 20261129-182334-4f2a
      hmz-mp watch --json | jq -r 'select(.type == "turn" and .status == "failed") | .item_id'
    """
    if as_json:
        _as_json(find_run(runs_directory(Path.cwd()), run))
        return
    need_a_screen()
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        directory = recorded.directory
    from hmz_mp.watching.screen import Abilities, WatchApp

    WatchApp(directory, Abilities(stop=_stopper(directory))).run()


def _as_json(directory: Path) -> None:
    if sys.stdout is None:  # as it is when the caller closed it
        raise BadInput("--json: standard output is closed")
    try:
        for change in changes(directory, _wait_for_reader):
            click.echo(json.dumps(_object(change)))
    except KeyboardInterrupt:
        give_up_stdout()  # or the end would wait for a reader that has stopped reading
        raise


def _object(change: RunBegins | TurnChanges | RunEnds) -> dict[str, Any]:
    match change:
        case TurnChanges():
            row = full_row(change.turn, change.patch)
            return {"type": "turn"} | {name: row[name] for name in _TURN_FIELDS}
        case RunBegins():
            return {"type": "run"} | _run(change)
        case RunEnds():
            found = _run(change)
            if change.was_killed and found["problem"] is None:
                found["problem"] = "its process is gone, and has written no end"
            return {"type": "end"} | {name: found[name] for name in (*_END_FIELDS, "usage")}


def _run(change: RunBegins | RunEnds) -> dict[str, Any]:
    return run_object(change.summary, time.time()) | {"usage": to_builtins(change.models)}


def _wait_for_reader(seconds: float) -> None:
    """Wait; raises `BrokenPipeError` at once when the reader of standard output has gone."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, ValueError):  # it is no file of the system's, but a buffer of who called
        time.sleep(seconds)
        return
    found = poll.poll(1000 * seconds)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in found):
        raise BrokenPipeError
    if found:  # it is of a sort that cannot be waited for
        time.sleep(seconds)


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
