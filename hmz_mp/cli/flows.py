"""``hmz-mp flows``: the flows that ``-f NAME`` finds from here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from hmz_mp.flows.describing import Described, Listed, listed
from hmz_mp.flows.finding import places
from hmz_mp.terminal import make_console, safe_text, shorten

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["flows_command"]

_GAP = 2
_LEAST_SUMMARY = 12  # cells; in less, a line says nothing
_NO_LIMIT = 1_000_000
_HIDDEN = "not found by this name: another comes first"
_EMPTY = "holds no function that is marked @flow"


@click.command("flows", short_help="List the flows that are found by name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per flow and line.")
def flows_command(as_json: bool) -> None:
    """List the flows that `hmz-mp exec -f NAME` finds from this directory.

    They are looked for in .humanize/flows of the project, then of the home directory, then among
    the built-in ones. Files are read, not run. With --json every flow is one object on a line of
    its own: name (as -f takes it), path, place, agents (their annotation), summary, hidden
    (another flow of this name comes first), problem.

    \b
    Examples:
      hmz-mp flows
      hmz-mp flows --json | jq -r 'select(.problem == "") | .name'
    """
    rows = [row for file in listed(places(Path.cwd(), Path.home())) for row in _rows(file)]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
    else:
        _print_table(rows, make_console(stderr=False))


def _rows(file: Listed) -> list[dict[str, Any]]:
    flows = file.flows or (Described("", "", ""),)
    problem = file.problem or ("" if file.flows else _EMPTY)
    return [
        {
            "name": f"{file.name}:{flow.name}" if len(flows) > 1 else file.name,
            "path": str(file.path),
            "place": file.place.label,
            "agents": flow.agents,
            "summary": flow.summary,
            "hidden": file.hidden,
            "problem": problem,
        }
        for flow in flows
    ]


def _print_table(rows: list[dict[str, Any]], console: Console) -> None:
    """Print a row per flow; what is said of it takes the room that is left, or is left out."""
    if not console.is_terminal:
        console.width = _NO_LIMIT
    names = [row["name"] for row in rows]
    columns = {"FLOW": names, "AGENTS": [row["agents"] for row in rows]}
    columns["WHERE"] = [row["place"] for row in rows]
    for heading in ("WHERE", "AGENTS"):
        if _room(columns, console.width) < _LEAST_SUMMARY:
            del columns[heading]
    room = _room(columns, console.width) - _GAP
    if room >= _LEAST_SUMMARY:
        columns["ABOUT"] = [shorten(_about(row), room) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for heading in columns:
        table.add_column(heading, no_wrap=True)
    for row, cells in zip(rows, zip(*columns.values(), strict=True), strict=True):
        style = "dim" if row["hidden"] else "red" if row["problem"] else ""
        table.add_row(*(safe_text(cell, style) for cell in cells))
    console.print(table)


def _about(row: dict[str, Any]) -> str:
    return row["problem"] or (_HIDDEN if row["hidden"] else row["summary"])


def _room(columns: dict[str, list[str]], width: int) -> int:
    """Return how many cells of ``width`` the columns leave, the gaps between them counted."""
    widths = [
        max(safe_text(cell).cell_len for cell in (heading, *cells))
        for heading, cells in columns.items()
    ]
    return width - sum(widths) - _GAP * (len(widths) - 1)
