"""``hmz-mp export``: every turn of a run as a row, with all that the ledger has of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hmz_mp.cli.delivery import STDOUT, deliver
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.report.rows import csv_lines, full_row, jsonl_lines
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hmz_mp.runs.reading import RecordedRun

__all__ = ["export_command"]


@click.command("export", short_help="Write every turn of a run as JSON lines or CSV.")
@click.argument("run", metavar="RUN", type=RunParam())
@click.option("--jsonl", "form", flag_value="jsonl", default="jsonl", help="JSON lines (default).")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated, with headings.")
@click.option("-o", "--output", default=STDOUT, metavar="FILE", help="Instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="Say what was written to FILE as JSON.")
def export_command(run: str, form: str, output: str, as_json: bool) -> None:
    """Write a row for each turn of RUN, in the order they were submitted, with all that the ledger
    has of it: the answer whole, the error and its traceback, the prompt, what it printed, times,
    tokens, money, the patch. docs/runs.md has the fields.

    Without -o the rows go to standard output, and --json is the same as --jsonl. A FILE is there
    whole or not at all.

    \b
    Examples:
      hmz-mp export last | jq -r 'select(.status == "failed") | .detail'
      hmz-mp export last --csv -o turns.csv
    """
    if as_json and output == STDOUT:
        form = "jsonl"
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        lines = csv_lines if form == "csv" else jsonl_lines
        written = deliver(lines(_rows(recorded)), output)
        summary = recorded.summary
    if summary.problem is not None:
        click.echo(printable(f"hmz-mp: {summary.problem}"), err=True)
    if output == STDOUT:
        return
    if as_json:
        click.echo(json.dumps({"run_id": summary.run_id, "file": output, "bytes": written}))
    else:
        click.echo(f"{summary.turns:,} turns written to {output}", err=True)


def _rows(run: RecordedRun) -> Iterator[dict[str, object]]:
    patches = {} if run.summary.status == "running" else run.patches()
    for turn in run.turns():
        yield full_row(turn, patches.get(turn.number))
