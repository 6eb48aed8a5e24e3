"""``--resume`` and ``--retry-failed``: what a run is asked for once more, and how that went.

Owns which options are taken from the run, and the words. Imported by ``cli.exec_`` and
``cli.conduct``.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.database import Beginning
from hmz_mp.runs.finding import find_run
from hmz_mp.runs.ledger import Ledger
from hmz_mp.runs.reading import RecordedRun
from hmz_mp.runs.schema import RESUMABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hmz_mp.cli.checks import Checked, Options
    from hmz_mp.runs.replay import Replay
    from hmz_mp.runs.tally import Tally

__all__ = ["as_given", "resumed_lines", "take_up", "with_recorded"]

_SELECTING = frozenset(("include", "exclude", "changed_since", "items", "nul"))
_OPTIONS = (
    *("settings", "at_once", "workers", "engine", "timeout", "retries", "max_failures"),
    *("max_cost", "max_tokens", "worktree", "ship", "ship_also"),
)


def as_given(options: Options) -> dict[str, Any]:
    """Return options as they are written down, to be given again by `with_recorded`."""
    names = [name for name in (*_OPTIONS, *sorted(_SELECTING)) if not name.startswith("max_c")]
    given = {name: getattr(options, name) for name in names if name != "max_tokens"}
    return given | {
        "max_cost": options.budget.max_cost or None,
        "max_tokens": options.budget.max_tokens or None,
    }


def with_recorded(run: str, given: dict[str, Any], written: Collection[str]) -> dict[str, Any]:
    """Return the options of a run that goes on: those ``written`` on the line, else the run's.

    Raises `BadInput` when there is no such run, or its items cannot be had again.
    """
    with RecordedRun(find_run(runs_directory(Path.cwd()), run)) as recorded:
        summary = recorded.summary
    before: Mapping[str, Any] = summary.options.get("given") or summary.options
    options = dict(given)
    for name in _OPTIONS:
        if name not in written and before.get(name) is not None:
            options[name] = before[name]
    if not _SELECTING & set(written):
        options |= {name: before[name] for name in _SELECTING if name in before}
        options |= {name: tuple(options[name]) for name in ("include", "exclude")}
        if options["items"] == "-":
            raise BadInput(
                f"the items of run {summary.run_id} came from standard input: give them again, "
                "with --items -"
            )
    if "flow" not in written:
        options["flow"] = summary.flow
    if "task" not in written:
        options["task"] = summary.task
    options["agents"] = options["agents"] or summary.agents
    options["ship_also"] = tuple(options["ship_also"])
    return options


def take_up(
    checked: Checked,
    beginning: Beginning,
    on_error: Callable[[str], object],
) -> tuple[Ledger, RecordedRun]:
    """Return the ledger of the run that goes on, and the run as it was left. Raises `BadInput`."""
    options = checked.options
    assert options.resume is not None
    directory = find_run(runs_directory(checked.root), options.resume)
    oldest = 1 if options.retry else RESUMABLE
    try:
        ledger = Ledger.take_up(directory, beginning=beginning, oldest=oldest, on_error=on_error)
    except sqlite3.Error as error:
        raise BadInput(f"run {directory.name} cannot go on: {error}") from error
    try:
        return ledger, RecordedRun(directory)
    except BaseException:
        ledger.close()
        raise


def resumed_lines(tally: Tally, replay: Replay, *, ended: bool, quiet: bool) -> list[str]:
    """Return what is said at the end of a run that went on.

    ``ended``: the flow has asked for all that it will.
    """
    lines = []
    if not quiet:
        lines.append(f"{tally.recalled:,} of them answered before, and not run again")
        if replay.changed:
            lines.append(
                f"{len(replay.changed):,} answered before and run again: the prompt's item, its "
                "file, the agent or its tool has changed"
            )
    if ended and replay.unasked:
        answers = "answer" if replay.unasked == 1 else "answers"
        lines.append(
            f"the flow went another way than before: {replay.unasked:,} {answers} of before not "
            "asked for, and what it asked instead was run"
        )
    return lines
