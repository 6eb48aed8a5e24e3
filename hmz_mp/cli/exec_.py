"""``hmz-mp exec``: its options. What it does is in ``checks`` and ``conduct``.

Imported by ``cli.main`` when the command is used.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from hmz_mp.cli.checks import Options, check
from hmz_mp.cli.conduct import conduct
from hmz_mp.cli.dry_run import dry_run
from hmz_mp.cli.resuming import with_recorded
from hmz_mp.cli.watch import need_a_screen
from hmz_mp.core.limits import AUTO
from hmz_mp.runs.costs import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hmz_mp.core.limits import AtOnce

__all__ = ["exec_command"]


def _written(names: Iterable[str]) -> set[str]:
    """Return which parameters are on the line."""
    context = click.get_current_context()
    return {
        name
        for name in names
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }


def _at_once(context: click.Context, option: click.Parameter, value: str | None) -> AtOnce | None:
    """Return a number of turns, or ``auto``."""
    if value is None:
        return None
    if value == AUTO:
        return AUTO
    try:
        number = int(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither a number nor auto", context, option
        ) from None
    if number < 0:
        raise click.BadParameter(
            f"{number} turns cannot run at once; 0 is no cap of its own", context, option
        )
    return number


def _seconds(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Return a positive number of seconds; click takes ``nan`` and ``inf`` for numbers."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"{value} is not a positive number of seconds", context, option)
    return value


def _money(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Return a positive number of US dollars."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"{value} is not a positive number of dollars", context, option)
    return value


@click.command("exec", short_help="Run a flow: by default, one agent turn per file.")
@click.argument("task", required=False, default="")
@click.option(
    "-f",
    "--flow",
    default="fanout",
    show_default=True,
    metavar="FLOW",
    help="The flow to run: a name, a path, or either with :NAME for one of several.",
)
@click.option(
    "-a",
    "--agent",
    "agents",
    multiple=True,
    metavar="SPEC",
    help="An agent, as BACKEND/MODEL; once for each agent the flow drives.",
)
@click.option(
    "-c",
    "--settings",
    metavar="FILE",
    help="Settings of the flow: a YAML, TOML or JSON file.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="GLOB",
    help="Only files that match this gitignore pattern; may be repeated.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    help="No files that match this gitignore pattern; may be repeated.",
)
@click.option(
    "--changed-since",
    metavar="REF",
    help="Only files that changed since this git ref.",
)
@click.option(
    "--items",
    metavar="FILE|-",
    help="Take the items from this list instead, one a line; - is standard input.",
)
@click.option(
    "-0", "nul", is_flag=True, help="The items of the list end with NUL, not with a line."
)
@click.option(
    "--at-once",
    metavar="N|auto",
    callback=_at_once,
    help="How many turns may run at once. By default as many as there are CPUs to use, and auto "
    "for agents with a service of their own: as many as it bears, which is found out.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many worker processes there may be.",
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="ENGINE",
    help="Where workers run: local, or beside those of a Dask cluster, dask://HOST:PORT.",
)
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    callback=_seconds,
    help="Seconds that a turn may run before it is ended as failed.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="How many more times to try a turn that failed.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(min=1),
    metavar="N",
    help="Begin no new turns once this many have failed.",
)
@click.option(
    "--max-cost",
    type=float,
    metavar="USD",
    callback=_money,
    help="Begin no new turns once those that ran have cost this much.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Begin no new turns once models have read and written this many tokens.",
)
@click.option(
    "--worktree",
    is_flag=True,
    help="Run each turn in a git worktree, and apply what they changed here at the end.",
)
@click.option(
    "--ship",
    is_flag=True,
    help="Send each turn its file, to run in a directory of its own, and apply what they changed "
    "here at the end: for machines that do not share this one's files.",
)
@click.option(
    "--ship-also",
    multiple=True,
    metavar="GLOB",
    help="Send files that match this gitignore pattern with every turn; may be repeated.",
)
@click.option(
    "--resume",
    metavar="RUN|last",
    help="Go on with a run that was cut short: what was answered is not run again.",
)
@click.option(
    "--retry-failed",
    metavar="RUN|last",
    help="Go on with a run: only what failed in it runs again.",
)
@click.option("--dry-run", is_flag=True, help="List the items and run nothing.")
@click.option("--print", "print_", is_flag=True, help="Answers on standard output, in item order.")
@click.option(
    "--json",
    "json_",
    is_flag=True,
    help="One JSON object per turn on standard output, in item order.",
)
@click.option("--watch", is_flag=True, help="Show the run on a full screen.")
@click.option("--quiet", is_flag=True, help="No progress, and a summary only of what went wrong.")
def exec_command(
    print_: bool,
    json_: bool,
    resume: str | None,
    retry_failed: str | None,
    **given: Any,
) -> int:
    """Run a flow with agents, TASK being what they are asked.

    The built-in flow, fanout, gives an agent one turn for each file of the repository.

    With --resume and --retry-failed, what is not on the line is as it was in the run.

    Exit status: 0 every turn was ok; 1 some failed or were not run; 2 a line to correct, said
    before any turn; 3 the flow itself raised; 130 interrupted.

    \b
    Examples:
      hmz-mp exec -a tool/hmz_mp.toolbox.python:outline --include '*.py' --print
      hmz-mp exec -a 'sh/python3 -m py_compile {path}' --changed-since main
      hmz-mp exec --worktree -a "sh/sed -i s/colour/color/ {path}" --include '*.md'
      git diff --name-only | hmz-mp exec -a 'sh/wc -l {path}' --items - --json
      hmz-mp exec -f lint -a tool/tools.py:check "find unchecked returns"
      hmz-mp exec --ship --engine dask://10.0.0.5:8786 -a tool/tools.py:check
      hmz-mp exec --resume last
    """
    if print_ and json_:
        raise click.UsageError("--print and --json cannot be used together")
    if resume is not None and retry_failed is not None:
        raise click.UsageError("--resume and --retry-failed cannot be used together")
    if given["nul"] and given["items"] is None and not given["dry_run"]:
        raise click.UsageError("-0 says how the list of --items is written, and there is none")
    run = retry_failed if resume is None else resume
    if run is not None:
        given = with_recorded(run, given, _written(given))
    budget = Budget(given.pop("max_cost") or 0.0, given.pop("max_tokens") or 0)
    if given["watch"]:
        need_a_screen()
    options = Options(
        **given | {"max_failures": given["max_failures"] or 0},
        budget=budget,
        style="json" if json_ else "print" if print_ else None,
        resume=run,
        retry=retry_failed is not None,
    )
    carry_out: Callable[..., int] = dry_run if options.dry_run else conduct
    return carry_out(check(options))
