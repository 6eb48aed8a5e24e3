"""``hmz-mp gc``: what runs that were killed have left behind, removed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import click

from hmz_mp.agents.folders import left_behind, remove
from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.runs.schema import DATABASE
from hmz_mp.terminal import printable
from hmz_mp.worktrees.home import Cleared, clear_left_behind

__all__ = ["gc_command"]


@click.command("gc", short_help="Remove what killed runs have left.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run or folder and line.")
def gc_command(dry_run: bool, as_json: bool) -> int:
    """Remove the git worktrees that runs in this repository have left: those that were killed,
    since a run removes its own. Runs that go on are let alone. Patches stay in the ledger; where
    some were not applied, it is said. So are temporary folders of agents, conversations and private
    homes, that killed programs of yours have left, wherever they were started.

    With --json every run is one object: run_id, status ("removed", "left", "in use" or "failed"),
    worktrees (how many), not_applied (item ids), problems. A folder has folder, status, problems.

    Exit status: 0 if nothing is left but what is in use, else 1.

    \b
    Examples:
      hmz-mp gc
      hmz-mp gc --dry-run
    """
    found = list(clear_left_behind(Path.cwd(), pretend=dry_run))
    for one in found:
        item_ids = [] if one.is_alive else _not_applied(one)
        if as_json:
            click.echo(json.dumps(_object(one, item_ids, dry_run)))
        else:
            for line in _lines(one, len(item_ids), dry_run):
                click.echo(line)
    folders = [(path, _clear_folder(path, pretend=dry_run)) for path in left_behind()]
    for path, problem in folders:
        click.echo(_about_folder(path, problem, as_json=as_json, dry_run=dry_run))
    if not found and not folders and not as_json:
        click.echo("nothing is left behind here", err=True)
    return int(any(one.problems for one in found) or any(problem for _, problem in folders))


def _clear_folder(path: Path, *, pretend: bool) -> str | None:
    """Remove a folder of an agent; return why that could not be done."""
    try:
        if not pretend:
            remove(path)
    except OSError as error:
        return f"{str(path)!r} could not be removed: {error}"
    return None


def _about_folder(path: Path, problem: str | None, *, as_json: bool, dry_run: bool) -> str:
    if as_json:
        status = "failed" if problem else "left" if dry_run else "removed"
        problems = [problem] if problem else []
        return json.dumps({"folder": str(path), "status": status, "problems": problems})
    if problem:
        return printable(problem)
    did = "would remove" if dry_run else "removed"
    return f"{did} {printable(str(path))}, of an agent whose program was killed"


def _not_applied(one: Cleared) -> list[str]:
    directory = runs_directory(one.start) / one.name
    if not (directory / DATABASE).is_file():
        return []
    try:
        with PatchJournal(directory) as journal:
            return journal.unapplied() if journal.checkout() is not None else []
    except (BadInput, sqlite3.Error):
        return []


def _status(one: Cleared, dry_run: bool) -> str:
    if one.is_alive:
        return "in use"
    return "failed" if one.problems else "left" if dry_run else "removed"


def _object(one: Cleared, item_ids: list[str], dry_run: bool) -> dict[str, Any]:
    return {
        "run_id": one.name,
        "status": _status(one, dry_run),
        "worktrees": one.worktrees,
        "not_applied": item_ids,
        "problems": list(one.problems),
    }


def _lines(one: Cleared, not_applied: int, dry_run: bool) -> list[str]:
    name = printable(one.name)
    if one.is_alive:
        return [f"run {name} goes on: its worktrees are let alone"]
    count = f"{one.worktrees:,} worktree{'' if one.worktrees == 1 else 's'}"
    did = "would remove" if dry_run else "could not remove all of" if one.problems else "removed"
    lines = [f"{did} {count} of run {name}"]
    lines += [f"  {printable(problem)}" for problem in one.problems]
    if not_applied:
        plural = "" if not_applied == 1 else "es"
        where = "" if one.start == Path.cwd() else f", in {printable(str(one.start))}"
        lines.append(
            f"  {not_applied:,} patch{plural} of it not applied yet: hmz-mp apply {name}{where}"
        )
    return lines
