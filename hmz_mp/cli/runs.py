"""``hmz-mp runs``: the runs of this directory, newest first."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.table import Table

from hmz_mp.runs import runs_directory
from hmz_mp.runs.backlog import ENDED
from hmz_mp.runs.finding import list_runs
from hmz_mp.runs.summaries import RunSummary
from hmz_mp.runs.words import STATE_WORDS, age, counted, duration, iso_time, written_command
from hmz_mp.terminal import make_console, safe_text, shorten

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run_object", "runs_command", "status_style"]

_DROPPED_FIRST = ("FLOW", "STARTED", "TOOK")  # on a terminal that is too narrow
_GAP = 2
_LEAST_COMMAND = 12  # cells; in less, a command says nothing
_NO_LIMIT = 1_000_000
_STYLES = {"ok": "green", "running": "cyan", "interrupted": "yellow"}


@click.command("runs", short_help="List the runs of this directory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run and line.")
def runs_command(as_json: bool) -> None:
    """List the runs that were started in this directory, newest first.

    On a terminal the commands are shortened to fit. With --json every run is one object on a
    line of its own: run_id, status, exit_code, started_at, ended_at, seconds, flow, task, agents,
    command, options, selected (how many items), counts (turns by state), total (how many turns
    there are to be, as far as is known), seconds_left (of a run that goes on), problem.

    \b
    Examples:
      hmz-mp runs
      hmz-mp runs --json | jq -r 'select(.status == "interrupted") | .run_id'
    """
    runs = list_runs(runs_directory(Path.cwd()))
    now = time.time()
    if as_json:
        for run in runs:
            click.echo(json.dumps(run_object(run, now)))
    elif runs:
        _print_table(runs, now, make_console(stderr=False))
    else:
        click.echo("no runs here yet: hmz-mp exec starts one", err=True)


def run_object(run: RunSummary, now: float) -> dict[str, Any]:
    """Return a run as ``--json`` has it."""
    return {
        "run_id": run.run_id,
        "status": run.status,
        "exit_code": run.exit_code,
        "started_at": iso_time(run.started_at or None),
        "ended_at": iso_time(run.ended_at),
        "seconds": _seconds(run, now),
        "flow": run.flow,
        "task": run.task,
        "agents": run.agents,
        "command": run.command,
        "options": run.options,
        "selected": run.items,
        "counts": {state: run.counts.get(state, 0) for state in STATE_WORDS},
        "total": run.total,
        "seconds_left": run.seconds_left,
        "problem": run.problem,
    }


def status_style(status: str) -> str:
    """Return the colour that a run's status is shown in."""
    return _STYLES.get(status, "red")


def _seconds(run: RunSummary, now: float) -> float | None:
    if run.status == "unreadable":
        return None
    return (run.ended_at if run.ended_at is not None else now) - run.started_at


def _turns(run: RunSummary) -> str:
    """Return how many turns are in which state, or of a run that goes on how far it is."""
    if run.status != "running" or run.items is None:
        return counted(run.counts)
    ended = {state: run.counts.get(state, 0) for state in ENDED}
    parts = [f"{sum(ended.values()):,} of {run.total:,}"]
    if failed := ended["failed"] + ended["cancelled"]:
        parts.append(f"{failed:,} failed")
    if run.seconds_left is not None:
        parts.append(f"{duration(run.seconds_left)} left")
    return ", ".join(parts)


def _columns(runs: list[RunSummary], now: float) -> dict[str, list[str]]:
    readable = [run.status != "unreadable" for run in runs]
    started = [age(now - run.started_at) for run in runs]
    turns = [_turns(run) for run in runs]
    took = [duration(max(0.0, _seconds(run, now) or 0.0)) for run in runs]

    def known(cells: list[str]) -> list[str]:
        return [cell if can else "" for cell, can in zip(cells, readable, strict=True)]

    return {
        "RUN": [run.run_id for run in runs],
        "STARTED": known(started),
        "FLOW": [run.flow for run in runs],
        "STATUS": [run.status for run in runs],
        "TURNS": known(turns),
        "TOOK": known(took),
    }


def _print_table(runs: list[RunSummary], now: float, console: Console) -> None:
    """Print a row per run, in the columns that fit; the command takes what is left."""
    if not console.is_terminal:
        console.width = _NO_LIMIT
    columns = _columns(runs, now)
    for heading in _DROPPED_FIRST:
        if _room(columns, console.width) < 0:
            del columns[heading]
    room = _room(columns, console.width) - _GAP
    if room >= _LEAST_COMMAND:
        about = [run.problem or written_command(run.command) for run in runs]
        columns["COMMAND"] = [shorten(words, room) for words in about]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for heading, cells in columns.items():
        least = _width(heading, cells) if heading == "RUN" else None
        justify: Literal["right", "left"] = "right" if heading == "TOOK" else "left"
        table.add_column(heading, no_wrap=True, min_width=least, justify=justify)
    for run, row in zip(runs, zip(*columns.values(), strict=True), strict=True):
        shown = dict(zip(columns, map(safe_text, row), strict=True))
        shown["STATUS"].stylize(status_style(run.status))
        table.add_row(*shown.values())
    console.print(table)


def _room(columns: dict[str, list[str]], width: int) -> int:
    """Return how many cells of ``width`` the columns leave, the gaps between them counted."""
    used = sum(_width(heading, cells) for heading, cells in columns.items())
    return width - used - _GAP * (len(columns) - 1)


def _width(heading: str, cells: list[str]) -> int:
    return max(safe_text(cell).cell_len for cell in (heading, *cells))
