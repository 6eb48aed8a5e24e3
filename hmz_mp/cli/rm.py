"""``hmz-mp rm``: runs removed, with all that was written down of them."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from hmz_mp.cli.run_argument import RunParam
from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.finding import find_run
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.schema import DATABASE
from hmz_mp.runs.words import counted
from hmz_mp.terminal import printable

__all__ = ["rm_command"]

_GOING = ".removing"  # the end of a directory's name while it is removed


@dataclass(frozen=True, slots=True)
class _Found:
    """A run to be removed; ``about`` is what is said of it, ``doubt`` why to ask first."""

    directory: Path
    about: str
    doubt: str | None


@click.command("rm", short_help="Remove a run and all that was written down of it.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=RunParam())
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run and line.")
def rm_command(runs: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Remove RUN: its ledger, its report, its patches. A run that goes on is refused.

    On a terminal it asks first. Elsewhere it asks nobody, but refuses without --yes what would be
    lost for good: patches that are not applied, and a ledger that cannot be read, which may be
    that of a run that goes on. No run is removed unless all of them can be.

    With --json every run is one object: run_id, status ("removed").

    \b
    Examples:
      hmz-mp rm 20261129-182334-4f2a
      hmz-mp runs --json | jq -r 'select(.status == "ok") | .run_id' | xargs hmz-mp rm --yes
    """
    runs_dir = runs_directory(Path.cwd())
    found = list({one.directory: one for one in (_look(runs_dir, run) for run in runs)}.values())
    if not yes and not _agreed(found):
        click.echo("nothing was removed", err=True)
        return 1
    _clear(runs_dir)
    for one in found:
        _remove(one.directory)
        name = one.directory.name
        if as_json:
            click.echo(json.dumps({"run_id": name, "status": "removed"}))
        else:
            click.echo(f"removed run {printable(name)}")
    return 0


def _look(runs_dir: Path, run: str) -> _Found:
    directory = find_run(runs_dir, run)
    try:
        with RecordedRun(directory) as recorded:
            summary, patches = recorded.summary, recorded.patches()
    except BadInput as error:
        return _Found(directory, "unreadable", str(error))
    if summary.status == "running":
        raise BadInput(f"run {directory.name} goes on; stop it first (Ctrl-C, or kill its process)")
    waiting = sum(patch.problem is not None for patch in patches.values())
    plural = "" if waiting == 1 else "es"
    doubt = f"{waiting:,} patch{plural} of it not applied" if waiting else summary.problem
    return _Found(directory, f"{summary.status}: {counted(summary.counts)}", doubt)


def _agreed(found: list[_Found]) -> bool:
    if sys.stdin.isatty() and sys.stderr.isatty():
        for one in found:
            said = ", ".join(filter(None, (one.about, one.doubt)))
            click.echo(printable(f"run {one.directory.name} ({said})"), err=True)
        what = "this run" if len(found) == 1 else f"these {len(found)} runs"
        return click.confirm(f"Remove {what}?", err=True)
    for one in found:
        if one.doubt is not None:
            raise BadInput(f"run {one.directory.name}: {one.doubt}; --yes removes it all the same")
    return True


def _remove(directory: Path) -> None:
    """Remove a directory so that a kill at any moment leaves no half a run to be listed."""
    going = directory.with_name(directory.name + _GOING)
    try:
        directory.rename(going)
        (going / DATABASE).unlink()
        shutil.rmtree(going)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{str(directory)!r} cannot be removed: {reason}") from error


def _clear(runs_dir: Path) -> None:
    """Remove what a killed removal has left."""
    for going in runs_dir.glob(f"*{_GOING}"):
        with suppress(OSError):
            (going / DATABASE).unlink(missing_ok=True)
            shutil.rmtree(going)
