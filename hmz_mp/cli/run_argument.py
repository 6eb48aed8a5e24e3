"""The RUN argument of commands, which shells can complete. Imported by commands."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import list_runs
from hmz_mp.runs.words import counted

__all__ = ["RunParam"]

_OFFERED = 50


class RunParam(click.types.StringParamType):
    """A run's id, the beginning of one, or "last"; what it names is looked up later."""

    name = "run"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  (click's signature)
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return "last" and the ids of the newest runs that begin so."""
        runs = (
            run
            for run in list_runs(runs_directory(Path.cwd()))
            if run.run_id.startswith(incomplete)
        )
        offered = [
            CompletionItem(run.run_id, help=f"{run.status}, {counted(run.counts)}")
            for run in islice(runs, _OFFERED)
        ]
        if "last".startswith(incomplete):
            offered.insert(0, CompletionItem("last", help="the run that began last"))
        return offered
