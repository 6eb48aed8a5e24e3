"""``hmz-mp bench``: its options. What is measured is in ``hmz_mp_bench``.

Imported by ``cli.main`` when the command is used. What is shown is in ``cli.bench_show``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hmz_mp.cli.bench_runs import compare, show_again, smoke
from hmz_mp.cli.bench_width import sweep_widths
from hmz_mp.errors import BadInput
from hmz_mp_bench.registry import CONTENDERS
from hmz_mp_bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["bench_command"]


def _numbers(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return numbers of at least 1, written with commas between them."""
    if value is None:
        return None
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",")))
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a list of numbers, as in 1,2,4", context, option
        ) from None
    if min(numbers) < 1:
        raise click.BadParameter(f"{min(numbers)} is less than 1", context, option)
    return numbers


def _names(names: tuple[str, ...], there: Collection[str], what: str) -> tuple[str, ...]:
    for name in names:
        if name not in there:
            known = ", ".join(there)
            raise BadInput(f"there is no {what} {name!r}; there are {known}")
    return tuple(dict.fromkeys(names))


def _readable(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Return a file that there is."""
    if value is not None and not Path(value).is_file():
        raise click.BadParameter(f"there is no file {value!r}", context, option)
    return None if value is None else Path(value)


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """Return where to write, which is looked at before anything is measured."""
    if value is None:
        return None
    path = Path(value)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{value!r} cannot be written", context, option)
    return path


@click.command("bench", short_help="Measure this machine: pools, peers, your own tool.")
@click.argument("names", nargs=-1, metavar="[WORKLOAD|FILE]...")
@click.option(
    "--width",
    "tool",
    metavar="SPEC",
    help="Sweep widths over FILEs with this tool/MODULE:FUNCTION.",
)
@click.option("--only", multiple=True, metavar="WORKLOAD", help="As WORKLOAD; may be repeated.")
@click.option(
    "--against", multiple=True, metavar="CONTENDER", help="Only with these; may be repeated."
)
@click.option("--quick", is_flag=True, help="Fewer calls, one run each: a minute or two.")
@click.option(
    "--smoke", "smoke_", is_flag=True, help="Only see that answers are right, and quick enough."
)
@click.option("--list", "list_", is_flag=True, help="List workloads and contenders.")
@click.option(
    "--runs", type=click.IntRange(min=1, max=1000), metavar="N", help="Runs of each that count."
)
@click.option(
    "--workers",
    metavar="N",
    callback=_numbers,
    help="Worker processes, 2 by default; with --width a list of numbers to try.",
)
@click.option(
    "--at-once", metavar="N,N", callback=_numbers, help="With --width: numbers of turns to try."
)
@click.option(
    "--from",
    "earlier",
    metavar="FILE",
    callback=_readable,
    help="Measure nothing; show what --json wrote there.",
)
@click.option(
    "--json", "json_", metavar="FILE", callback=_writable, help="Write all figures there."
)
@click.option("--svg", metavar="FILE", callback=_writable, help="Write a plot there.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
def bench_command(
    names: tuple[str, ...],
    tool: str | None,
    list_: bool,
    smoke_: bool,
    **given: Any,
) -> int:
    """Compare hmz_mp with what else is installed here, or find the best width for your own tool.

    Each contender runs in a fresh process; answers are verified; a contender that is not installed
    is named. With --width, a tool is run over FILEs with several numbers of workers and of turns
    at once, and the smallest width that is as good as the best is named.

    Exit status: 0 measured; 1 an answer was wrong, or a contender or a file failed; 2 a line to
    correct, said before anything is measured; 130 interrupted, what was measured is shown.

    \b
    Examples:
      hmz-mp bench --quick
      hmz-mp bench gathered parse --against hmz-mp --against process-pool --svg bench.svg
      hmz-mp bench --json figures.json
      hmz-mp bench --from figures.json --markdown
      hmz-mp bench --width tool/hmz_mp.toolbox.python:outline src/*.py
      hmz-mp bench --width tool/checks.py:check --workers 1,2,4 --at-once 4,16 data/*.csv
    """
    if list_:
        return _list()
    if tool is not None:
        return _width(tool, names, smoke_, given)
    if given["at_once"] is not None:
        raise click.UsageError("--at-once belongs to --width")
    if given["workers"] is not None and len(given["workers"]) > 1:
        raise click.UsageError("--workers takes several numbers only with --width")
    workloads = _names((*names, *given["only"]), WORKLOADS, "workload")
    against = _names(given["against"], CONTENDERS, "contender")
    if given["earlier"] is not None:
        return show_again(
            given["earlier"], given["json_"], given["svg"], as_markdown=given["markdown"]
        )
    if smoke_:
        return smoke(given["json_"])
    return compare(
        workloads or tuple(WORKLOADS),
        against or tuple(CONTENDERS),
        size="quick" if given["quick"] else "full",
        runs=given["runs"],
        workers=(given["workers"] or (2,))[0],
        json_file=given["json_"],
        svg_file=given["svg"],
        as_markdown=given["markdown"],
    )


def _width(tool: str, names: tuple[str, ...], smoke_: bool, given: dict[str, Any]) -> int:
    unfit = [
        option
        for option, value in (
            ("--only", given["only"]), ("--against", given["against"]), ("--quick", given["quick"]),
            ("--smoke", smoke_), ("--from", given["earlier"]), ("--svg", given["svg"]),
            ("--markdown", given["markdown"]),
        )
        if value
    ]  # fmt: skip
    if unfit:
        raise click.UsageError(f"{unfit[0]} does not go with --width")
    return sweep_widths(
        tool, names, given["workers"], given["at_once"], given["runs"] or 3, given["json_"]
    )


def _list() -> int:
    for name, workload in WORKLOADS.items():
        click.echo(f"{name:14}{workload.title}")
    click.echo("")
    for name, entry in CONTENDERS.items():
        click.echo(f"{name:26}{entry.title}")
    return 0
