"""``hmz-mp trace``: when each turn of a run waited and ran, as a trace that Perfetto opens."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hmz_mp.cli.delivery import STDOUT, deliver
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.report.trace import trace_pieces
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp.terminal import printable

__all__ = ["trace_command"]

_NAME = "trace.json"


@click.command("trace", short_help="Write when each turn waited and ran, for Perfetto.")
@click.argument("run", metavar="RUN", type=RunParam())
@click.option("-o", "--output", metavar="FILE", help="Where to; - is stdout.")
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def trace_command(run: str, output: str | None, as_json: bool) -> None:
    """Write a trace of RUN and say where it is. Open it in https://ui.perfetto.dev, which keeps it
    on your machine, or in chrome://tracing.

    It has a track for each worker, more where a worker runs several turns at once, with a slice for
    each turn and its attempts inside; sessions of several turns; the turns that wait for a limit
    or a worker; and how many run and wait. A run that goes on is written as far as it is.

    With --json: run_id, file, bytes.

    \b
    Examples:
      hmz-mp trace last
      hmz-mp trace 20261129-182334-4f2a -o run.json
    """
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        file = output or str(recorded.directory / _NAME)
        written = deliver(trace_pieces(recorded), file)
        run_id = recorded.summary.run_id
    if file == STDOUT:
        return
    if as_json:
        click.echo(json.dumps({"run_id": run_id, "file": file, "bytes": written}))
    else:
        click.echo(printable(file))
