"""``hmz-mp show``: one run, or one item of it, as its ledger has it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from hmz_mp.cli.output import reviewed, row
from hmz_mp.cli.run_argument import RunParam
from hmz_mp.cli.runs import run_object, status_style
from hmz_mp.errors import BadInput
from hmz_mp.runs import runs_directory
from hmz_mp.runs.costs import read_usage
from hmz_mp.runs.finding import open_run
from hmz_mp.runs.reading import PatchState, RecordedRun
from hmz_mp.runs.summaries import RunSummary
from hmz_mp.runs.telling import TRIED
from hmz_mp.runs.words import (
    STATE_WORDS,
    age,
    counted,
    duration,
    iso_time,
    local_time,
    model_used,
    used,
    written_command,
)
from hmz_mp.terminal import make_console, printable, safe_text
from hmz_mp.worktrees.patches import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["show_command"]

_SLOWEST = 5
_NAMED_ITEMS = 10
_UNSUCCESSFUL = ("failed", "cancelled", "not_run")


@click.command("show", short_help="Show a run, or one of its items.")
@click.argument("run", metavar="RUN", type=RunParam())
@click.argument("item", metavar="[ITEM]", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text; see above.")
def show_command(run: str, item: str | None, as_json: bool) -> None:
    """Show RUN: how it went, its slowest items, and every item that failed or did not run.

    With ITEM, show all there is about that item: its answer whole, its error, what it printed,
    when and where it ran, and what earlier tries of it failed with. RUN is an id from
    `hmz-mp runs`, the beginning of one, or "last". An ITEM that begins with a dash goes after `--`.

    With --json, a run is one object: what `hmz-mp runs --json` says of it, "usage", what was used
    of each model, and "items", a list of what `hmz-mp exec --json` says of each. An item is one
    object per turn, a line each; "tried", if there were earlier tries, is a list of their errors.

    \b
    Examples:
      hmz-mp show last
      hmz-mp show 20261129-182334-4f2a src/main.py
      hmz-mp show last --json | jq -r '.items[] | select(.status == "failed") | .item_id'
    """
    with open_run(runs_directory(Path.cwd()), run) as recorded:
        if item is None:
            show = _run_as_json if as_json else _run_as_text
            show(recorded)
        else:
            turns = _turns_of(recorded, item)
            patches = recorded.patches()
            tried = {turn.number: _tried(recorded, turn.number) for turn in turns}
            if as_json:
                _turns_as_json(turns, patches, tried)
            else:
                _turns_as_text(turns, patches, tried, make_console(stderr=False))


def _tried(run: RecordedRun, number: int) -> list[str]:
    """Return what the earlier tries of a turn came to, an error and what there is beside it."""
    return [event.text for event in run.events(number) if event.kind == TRIED]


def _turns_of(run: RecordedRun, item: str) -> list[TurnRecord]:
    """Return the turns of ``item``, which may also be written as it was shown, escaped."""
    turns = list(run.turns(item))
    if turns:
        return turns
    ids = list(run.item_ids())
    shown_so = [item_id for item_id in ids if printable(item_id) == item]
    if len(shown_so) == 1:
        return list(run.turns(shown_so[0]))
    raise BadInput(_no_such_item(run.summary.run_id, item, ids))


def _no_such_item(run_id: str, item: str, ids: list[str]) -> str:
    if not ids:
        return f"run {run_id} has no items"
    similar = [item_id for item_id in ids if item.lower() in item_id.lower()] if item else []
    listed = similar or ids
    named = ", ".join(map(repr, listed[:_NAMED_ITEMS]))
    more = f" and {len(listed) - _NAMED_ITEMS:,} more" if len(listed) > _NAMED_ITEMS else ""
    there_are = "similar ones are" if similar else "there are"
    return f"run {run_id} has no item {item!r}; {there_are}: {named}{more}"


def _run_as_json(run: RecordedRun) -> None:
    # Written piece by piece: a run may have more answers than fit into memory.
    usage = [to_builtins(one) for one in run.costs().models]
    opening = json.dumps(run_object(run.forecast(), time.time()) | {"usage": usage})
    click.echo(opening.removesuffix("}") + ', "items": [', nl=False)
    patches = _finished(run)
    for position, turn in enumerate(run.turns()):
        shown = reviewed(row(turn), _problem(turn, patches))
        click.echo((", " if position else "") + json.dumps(shown), nl=False)
    click.echo("]}")


def _finished(run: RecordedRun) -> dict[int, PatchState]:
    """Return the patches of a run, once they were to be applied."""
    return {} if run.summary.status == "running" else run.patches()


def _problem(turn: TurnRecord, patches: Mapping[int, PatchState]) -> str | None:
    patch = patches.get(turn.number)
    return patch.problem if patch is not None else None


def _turns_as_json(
    turns: list[TurnRecord],
    patches: Mapping[int, PatchState],
    tried: Mapping[int, list[str]],
) -> None:
    for turn in turns:
        patch = patches.get(turn.number)
        shown = reviewed(row(turn), _problem(turn, patches)) | _details(turn)
        shown["patch_state"] = patch.state if patch is not None else None
        shown["patch_file"] = patch.file if patch is not None else None
        if tried[turn.number]:
            shown["tried"] = tried[turn.number]
        click.echo(json.dumps(shown))


def _details(turn: TurnRecord) -> dict[str, Any]:
    return {
        "state": turn.state,
        "error_type": turn.error_type,
        "detail": turn.detail,
        "output": turn.output,
        "patch": _patch_text(turn),
        "prompt": turn.prompt,
        "agent": turn.agent,
        "session": turn.session,
        "place": turn.place,
        "cwd": turn.cwd,
        "submitted_at": iso_time(turn.submitted_at),
        "began_at": iso_time(turn.began_at),
        "ended_at": iso_time(turn.ended_at),
    }


def _patch_text(turn: TurnRecord) -> str | None:
    return None if turn.patch is None else os.fsdecode(text_of(turn.patch))


def _run_as_text(run: RecordedRun) -> None:
    console = make_console(stderr=False)
    summary = run.forecast()
    title = safe_text(f"run {summary.run_id}: ")
    title.append(printable(summary.status), status_style(summary.status))
    console.print(title, soft_wrap=True)
    _print_fields(console, _run_fields(summary, time.time()))
    models = run.costs().models
    if models:
        _print_fields(console, iter([("models", used(models))]))
        _print_list(console, "by model", [model_used(one) for one in models if len(models) > 1])
    slowest = [
        f"{duration(turn.seconds or 0.0):>7}  {turn.item_id}" for turn in run.slowest(_SLOWEST)
    ]
    _print_list(console, "slowest", slowest)
    for state in _UNSUCCESSFUL:
        if summary.counts.get(state):
            _print_list(console, STATE_WORDS[state], map(_reason, run.turns(state=state)))
    patches = _finished(run)
    if any(patch.problem for patch in patches.values()):
        _print_list(console, "not in the checkout", _unapplied(run, patches))


def _unapplied(run: RecordedRun, patches: Mapping[int, PatchState]) -> Iterator[str]:
    for number, item_id, state in run.columns(("number", "item_id", "state")):
        patch = patches.get(number)
        if patch is not None and patch.problem is not None and state == "ok":
            yield f"{item_id}: {patch.problem}"


def _run_fields(summary: RunSummary, now: float) -> Iterator[tuple[str, str]]:
    started = f"{local_time(summary.started_at)} ({age(now - summary.started_at)})"
    if summary.problem is not None:
        yield "damaged", summary.problem
    yield "command", written_command(summary.command)
    yield "flow", summary.flow
    if summary.task:
        yield "task", summary.task
    yield "agents", ", ".join(summary.agents)
    yield "started", started
    ended_at = summary.ended_at
    yield "took", duration(max(0.0, (now if ended_at is None else ended_at) - summary.started_at))
    yield "turns", f"{summary.turns:,}: {counted(summary.counts)}"
    if summary.total > summary.turns:
        yield "to come", f"{summary.total - summary.turns:,} more at least"
    if summary.seconds_left is not None:
        yield "left", duration(summary.seconds_left)


def _reason(turn: TurnRecord) -> str:
    why = turn.error or turn.error_type
    return f"{turn.item_id}: {why}" if why else turn.item_id


def _print_fields(console: Console, fields: Iterator[tuple[str, str]]) -> None:
    for name, value in fields:
        console.print(safe_text(f"  {name:<10}{value}"), soft_wrap=True)


def _print_list(console: Console, heading: str, lines: Iterator[str] | list[str]) -> None:
    for position, line in enumerate(lines):
        if position == 0:
            console.print(safe_text(f"{heading}:", "bold"), soft_wrap=True)
        console.print(safe_text(f"  {line}"), soft_wrap=True)


def _turns_as_text(
    turns: list[TurnRecord],
    patches: Mapping[int, PatchState],
    tried: Mapping[int, list[str]],
    console: Console,
) -> None:
    for position, turn in enumerate(turns):
        if position:
            console.print()
        title = safe_text(f"{turn.item_id}: ")
        title.append(STATE_WORDS[turn.state], status_style(turn.state))
        console.print(title, soft_wrap=True)
        _print_fields(console, _turn_fields(turn, patches.get(turn.number)))
        for heading, text in (
            ("answer", turn.answer),
            ("error", turn.error),
            ("detail", turn.detail),
            *_headed(tried[turn.number]),
            ("output", turn.output),
            ("patch", _patch_text(turn)),
            ("prompt", turn.prompt),
        ):
            if text:
                console.print(safe_text(f"{heading}:", "bold"), soft_wrap=True)
                console.print(safe_text(text.rstrip("\n"), multiline=True), soft_wrap=True)


def _headed(tried: list[str]) -> Iterator[tuple[str, str]]:
    for count, text in enumerate(tried, start=1):
        yield f"earlier try {count}", text


def _turn_fields(turn: TurnRecord, patch: PatchState | None) -> Iterator[tuple[str, str]]:
    yield "agent", turn.agent
    yield "session", f"{turn.session}, turn {turn.place + 1} of it"
    if turn.cwd is not None:
        yield "in", turn.cwd
    yield "submitted", local_time(turn.submitted_at)
    if turn.began_at is not None:
        yield "waited", duration(max(0.0, turn.began_at - turn.submitted_at))
    if turn.seconds is not None:
        yield "ran", duration(turn.seconds)
    if turn.worker is not None:
        yield "worker", f"{turn.worker}"
    yield "attempts", f"{turn.attempts}"
    if turn.conversation is not None:
        yield "known as", turn.conversation
    usage = read_usage(turn.usage)
    if usage:
        yield "models", "; ".join(map(model_used, usage))
    if patch is not None:
        yield "patch", f"not applied: {patch.problem}" if patch.problem else "applied"
        if patch.file is not None:
            yield "left in", patch.file
