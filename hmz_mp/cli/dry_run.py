"""``hmz-mp exec --dry-run``: what would run.

Imported by ``cli.exec_``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from hmz_mp.cli.checks import Checked
    from hmz_mp.core.ambient import Item
    from hmz_mp.core.limits import AtOnce

__all__ = ["dry_run"]


def dry_run(run: Checked) -> int:
    """List the items on standard output, and say on standard error what would be done with them.

    A terminal is shown them escaped; elsewhere they are written as ``--items`` reads them.
    """
    selection = run.items.selection
    for item in selection.items:
        sys.stdout.buffer.write(_line(item, run))
    sys.stdout.buffer.flush()
    for line in selection.warnings:
        click.echo(f"warning: {printable(line)}", err=True)
    agents = ", ".join(printable(agent.spec) for agent in run.agents)
    skipped = f", {selection.skipped_binary:,} binary skipped" if selection.skipped_binary else ""
    count = f"{len(selection.items):,} item{'' if len(selection.items) == 1 else 's'}"
    click.echo(
        f"{count} for {printable(run.options.flow)} with {agents}, {_width(run.at_once)},"
        f" of {printable(selection.searched)}{skipped}; nothing was run",
        err=True,
    )
    return 0


def _width(at_once: AtOnce) -> str:
    if isinstance(at_once, str):
        return "auto at once"
    return f"{at_once:,} at once" if at_once else "all at once"


def _line(item: Item, run: Checked) -> bytes:
    if run.options.style == "json":
        return json.dumps({"item_id": item.item_id}).encode() + b"\n"
    if sys.stdout.isatty():
        return printable(item.item_id).encode() + b"\n"
    return os.fsencode(item.item_id) + (b"\0" if run.options.nul else b"\n")
