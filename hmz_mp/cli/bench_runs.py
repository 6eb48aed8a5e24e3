"""Carrying out ``hmz-mp bench``: what is measured, what is printed and written, the exit status.

Imported by ``cli.bench``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from hmz_mp.cli.bench_show import Where, print_table
from hmz_mp.terminal import printable
from hmz_mp_bench.machine import about
from hmz_mp_bench.measuring import Position, carry_out, in_a_fresh_process
from hmz_mp_bench.plan import plan
from hmz_mp_bench.registry import CONTENDERS, OURS, missing
from hmz_mp_bench.results import Results
from hmz_mp_bench.svg import draw
from hmz_mp_bench.tables import markdown, target_table, workload_table
from hmz_mp_bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hmz_mp_bench.workloads import Size

__all__ = ["SMOKE_RATIO", "compare", "smoke", "sweep_widths"]

INTERRUPTED = 130
SMOKE_RATIO = 3.0  # times ProcessPoolExecutor, gathered: far less than it is
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
    interrupted = _measure(results, runs, against)
    if as_markdown:
        click.echo(markdown(results), nl=False)
    else:
        _print(results)
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    if svg_file is not None:
        svg_file.write_text(draw(results), encoding="utf-8")
    if interrupted:
        click.echo("hmz-mp: interrupted: what is shown is partial", err=True)
        return INTERRUPTED
    return 1 if results.problems else 0


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
            reason = reason or missing(contender)
            results.cell(name, contender).left_out = reason
    return results


def _measure(results: Results, runs: int | None, against: Sequence[str]) -> bool:
    """Fill in the results; return whether that was interrupted."""
    available = [name for name in against if missing(name) is None]
    steps = plan(results.workloads, CONTENDERS, available, results.size, runs)

    with Where() as where:

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
    about = results.about
    click.echo(printable(
        f"{about['implementation']} {about['python']}, {about['cpus']} CPUs "
        f"({about['processor']}), {results.workers} workers, load {about['load']:.1f}"
    ))  # fmt: skip
    click.echo("")
    for name in results.cells:
        print_table(workload_table(results, name))
    print_table(target_table(results))


def smoke(json_file: Path | None) -> int:
    """See in seconds that answers are right and that calls are far quicker than with the library's.

    Returns the exit status.
    """
    results = _set_up(SMOKE, SMOKE_AGAINST, "smoke", 2)
    if _measure(results, None, SMOKE_AGAINST):
        return INTERRUPTED
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
    for workload, contender, problem in results.problems:
        click.echo(f"{workload}: {contender}: {printable(problem)}")
    ratio = results.ratio("gathered", "process-pool", OURS) or 0.0
    click.echo(
        f"gathered calls: {ratio:.1f} × ProcessPoolExecutor, at least {SMOKE_RATIO:.0f} wanted"
    )
    return 1 if results.problems or ratio < SMOKE_RATIO else 0


def sweep_widths(
    tool: str,
    names: Sequence[str],
    workers: Sequence[int] | None,
    at_once: Sequence[int] | None,
    runs: int,
    json_file: Path | None,
) -> int:
    """Sweep widths over a user's own tool and files; return the exit status."""
    raise NotImplementedError
