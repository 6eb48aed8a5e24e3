"""Carrying out ``hmz-mp bench``: what is measured, what is printed and written, the exit status.

Imported by ``cli.bench``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hmz_mp.cli.bench_show import Where, print_table, stoppable
from hmz_mp.errors import BadInput
from hmz_mp.terminal import make_console, printable, safe_text
from hmz_mp_bench.machine import about
from hmz_mp_bench.measuring import Position, carry_out, in_a_fresh_process
from hmz_mp_bench.plan import plan
from hmz_mp_bench.registry import CONTENDERS, OURS, missing
from hmz_mp_bench.results import Results
from hmz_mp_bench.svg import draw
from hmz_mp_bench.tables import machine_line, markdown, target_table, workload_table
from hmz_mp_bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hmz_mp_bench.plan import Step
    from hmz_mp_bench.workloads import Size

__all__ = ["SMOKE_RATIO", "compare", "show_again", "smoke"]

INTERRUPTED = 130
SMOKE_RATIO = 3.0  # times ProcessPoolExecutor, gathered: far less than it is
SMOKE_RUNS = 3  # of the calls of that ratio; the least counts, as others may be busy here
SMOKE = ("gathered", "one-by-one", "mebibyte", "map", "killed", "parse", "sessions", "exec")
SMOKE_AGAINST = (OURS, "hmz-mp-trio", "hmz-mp-executor", "process-pool", "hmz-mp-exec", "bare-map")


def compare(
    workloads: Sequence[str],
    against: Sequence[str],
    *,
    size: Size,
    runs: int | None,
    workers: int,
    json_file: Path | None,
    svg_file: Path | None,
    as_markdown: bool,
) -> int:
    """Measure, print the tables and write the files; return the exit status."""
    results = _set_up(workloads, against, size, workers)
    steps = plan(results.workloads, CONTENDERS, against, results.size, runs)
    interrupted = _measure(results, steps)
    _write(results, json_file, svg_file, as_markdown=as_markdown)
    if interrupted:
        click.echo("hmz-mp: interrupted: what is shown is partial", err=True)
        return INTERRUPTED
    return 1 if results.problems else 0


def show_again(
    earlier: Path, json_file: Path | None, svg_file: Path | None, *, as_markdown: bool
) -> int:
    """Print and write what an earlier run measured. Raises `BadInput` for any other file."""
    try:
        results = Results.from_json(json.loads(earlier.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{str(earlier)!r} is not what hmz-mp bench --json writes: "
            f"{type(error).__name__}: {error}"
        ) from None
    _write(results, json_file, svg_file, as_markdown=as_markdown)
    return 0


def _write(
    results: Results, json_file: Path | None, svg_file: Path | None, *, as_markdown: bool
) -> None:
    if as_markdown:
        click.echo(markdown(results), nl=False)
    else:
        _print(results)
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    if svg_file is not None:
        svg_file.write_text(draw(results), encoding="utf-8")


def _set_up(workloads: Sequence[str], against: Sequence[str], size: Size, workers: int) -> Results:
    chosen = {name: WORKLOADS[name] for name in WORKLOADS if name in workloads}
    results = Results(chosen, size, workers, about())
    for name, workload in chosen.items():
        for contender in CONTENDERS:
            if contender not in against:
                continue
            reason = workload.cannot.get(contender)
            if reason is None and contender not in workload.contenders:
                continue
            if workload.needs and not Path(workload.needs).exists():
                reason = f"this system has no {workload.needs}"
            reason = reason or missing(contender)
            results.cell(name, contender).left_out = reason
    return results


def _measure(results: Results, planned: Sequence[Step]) -> bool:
    """Fill in the results; return whether that was interrupted."""
    steps = [one for one in planned if results.cell(one.workload, one.contender).left_out is None]

    with stoppable(), Where() as where:

        def watch(position: Position) -> None:
            step = position.step
            what = f"{step.workload}: {CONTENDERS[step.contender].title}, run {step.run + 1}"
            where.look(what, position.number, position.total, position.left)

        try:
            carry_out(steps, results, in_a_fresh_process(results, CONTENDERS), watch)
        except KeyboardInterrupt:
            return True
    return False


def _print(results: Results) -> None:
    console = make_console(stderr=False)
    console.print(safe_text(machine_line(results)))
    console.print()
    for name in results.cells:
        print_table(workload_table(results, name))
    print_table(target_table(results))


def smoke(json_file: Path | None) -> int:
    """See in seconds that answers are right and that calls are far quicker than with the library's.

    Returns the exit status.
    """
    results = _set_up(SMOKE, SMOKE_AGAINST, "smoke", 2)
    steps = []
    for name, measured in results.workloads.items():
        runs = SMOKE_RUNS if name == "gathered" else 1
        steps += plan({name: measured}, CONTENDERS, SMOKE_AGAINST, "smoke", runs)
    if _measure(results, steps):
        return INTERRUPTED
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    for workload, contender, problem in results.problems:
        click.echo(f"{workload}: {contender}: {printable(problem)}")
    ratio = _least_ratio(results)
    click.echo(
        f"gathered calls: {ratio:.1f} × ProcessPoolExecutor, at least {SMOKE_RATIO:.0f} wanted"
    )
    return 1 if results.problems or ratio < SMOKE_RATIO else 0


def _least_ratio(results: Results) -> float:
    ours, others = (results.cell("gathered", one).values("call") for one in (OURS, "process-pool"))
    return min(others) / min(ours) if ours and others else 0.0
