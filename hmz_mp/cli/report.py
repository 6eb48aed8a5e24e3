"""``hmz-mp report``: a run as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hmz_mp.cli.delivery import STDOUT, deliver
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.report.page import page_pieces
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp.terminal import printable

__all__ = ["report_command"]

_NAME = "report.html"


@click.command("report", short_help="Write a run as one HTML page.")
@click.argument("run", metavar="RUN", type=RunParam())
@click.option("-o", "--output", metavar="FILE", help="Where to; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def report_command(run: str, output: str | None, as_json: bool) -> None:
    """Write RUN as an HTML page and say where it is. The page needs nothing but itself: no network,
    and JavaScript only to search and sort.

    It shows how the run went, what the workers did over time, how long turns ran, what failed and
    why, the slowest, what was used of models, and every item with its answer and changes.
    A run that goes on is shown as it stands.

    With --json: run_id, file, bytes.

    \b
    Examples:
      hmz-mp report last
      hmz-mp report 20261129-182334-4f2a -o report.html
    """
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        file = output or str(recorded.directory / _NAME)
        written = deliver(page_pieces(recorded), file)
        run_id = recorded.summary.run_id
    if file == STDOUT:
        return
    if as_json:
        click.echo(json.dumps({"run_id": run_id, "file": file, "bytes": written}))
    else:
        click.echo(printable(file))
