"""``hmz-mp apply``: what of a run's patches is not in the checkout yet, applied now."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from hmz_mp.cli.patching import patch_lines, say_lines
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.terminal import printable
from hmz_mp.worktrees.applying import Application, apply_patches
from hmz_mp.worktrees.home import Home

__all__ = ["apply_command"]

_INTERRUPTED = 130


@click.command("apply", short_help="Apply what is left of a run's patches.")
@click.argument("run", metavar="RUN", type=RunParam())
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def apply_command(run: str, as_json: bool) -> int:
    """Apply the patches of RUN that are not in the checkout yet: those of a run that was
    interrupted or killed, one whose writing was cut short, and those that did not fit before.

    Each is applied whole or not at all, in item order, three-way. Nothing is staged.

    Exit status: 0 if all of them are in the checkout now, else 1.

    \b
    Examples:
      hmz-mp apply last
      hmz-mp apply 20261129-182334-4f2a --json | jq '.not_applied[].item_id'
    """
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        run_id, directory = recorded.summary.run_id, recorded.directory
        if recorded.summary.status == "running":
            raise BadInput(f"run {run_id} goes on; it applies its patches at its end")
    try:
        with PatchJournal(directory) as journal:
            patches = _apply(run_id, journal)
    except sqlite3.Error as error:
        raise BadInput(f"the ledger of run {run_id} cannot be used: {error}") from error
    if as_json:
        click.echo(json.dumps(_object(run_id, patches)))
    else:
        say_lines(patch_lines(patches, run_id) or ["there is nothing to apply"])
    return _INTERRUPTED if patches.interrupted else 0 if patches.complete else 1


def _apply(run_id: str, journal: PatchJournal) -> Application:
    origin = journal.checkout()
    if origin is None:
        raise BadInput(f"run {run_id} had no worktrees, and so no patches")
    checkout, base = origin
    if not Path(checkout.git_dir).is_dir() or not Path(checkout.top).is_dir():
        raise BadInput(f"the checkout of run {run_id}, {checkout.top!r}, is not there any more")
    try:
        home = Home(Path.cwd(), run_id, checkout)
    except BlockingIOError:
        raise BadInput(f"the patches of run {run_id} are being applied already") from None
    with closing(_Closing(home)):
        scratch = home.path / "scratch"
        scratch.mkdir(exist_ok=True)
        return apply_patches(checkout, base, scratch, journal)


class _Closing:
    """Has a home removed, and what could not be said."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def close(self) -> None:
        say_lines([f"warning: {printable(problem)}" for problem in self._home.remove()])


def _object(run_id: str, patches: Application) -> dict[str, object]:
    return {
        "run_id": run_id,
        "applied": patches.applied,
        "already": patches.already,
        "problem": patches.problem,
        "not_applied": [
            {"item_id": one.item_id, "problem": one.problem, "file": one.file}
            for one in patches.refused
        ],
    }
