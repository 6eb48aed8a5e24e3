"""``hmz-mp bench --width``: a user's own tool over their own files, at several widths.

Imported by ``cli.bench``. What is tried and which width is named is in ``hmz_mp_bench.width``.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hmz_mp.agents import agent_from_spec
from hmz_mp.agents.spec import parse
from hmz_mp.cli.bench_show import Where, print_table, stoppable
from hmz_mp.core.cpus import usable_cpus
from hmz_mp.errors import BadInput
from hmz_mp.terminal import printable
from hmz_mp_bench.width import RULE, Sweep, grid, measure_in_a_fresh_process, width_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hmz_mp_bench.runner import Measured
    from hmz_mp_bench.width import Width

__all__ = ["sweep_widths"]

INTERRUPTED = 130
COMPUTING = ("tool", "sh")  # agents of which running a file again costs time and nothing else


def sweep_widths(
    tool: str,
    names: Sequence[str],
    workers: Sequence[int] | None,
    at_once: Sequence[int] | None,
    runs: int,
    json_file: Path | None,
) -> int:
    """Run the tool over the files at each width, print a table; return the exit status.

    Raises `BadInput` before anything runs.
    """
    if parse(tool).backend not in COMPUTING:
        raise BadInput(
            f"--width runs every file many times, so with tool/ or sh/, not with {tool!r}"
        )
    agent = agent_from_spec(tool)
    files = _files(names)
    widths = grid(usable_cpus(), len(files), waits=agent.waits, workers=workers, at_once=at_once)
    sweep = Sweep(tool, len(files))
    interrupted = _sweep(sweep, widths, runs, measure_in_a_fresh_process(tool, files, math.inf))
    _print(sweep)
    if json_file is not None:
        json_file.write_text(json.dumps(sweep.as_json(), indent=1) + "\n", encoding="utf-8")
    if interrupted:
        click.echo("hmz-mp: interrupted: what is shown is partial", err=True)
        return INTERRUPTED
    return 1 if sweep.failed or sweep.problem is not None else 0


def _files(names: Sequence[str]) -> list[str]:
    if not names:
        raise BadInput("--width needs the FILEs that the tool is to run over")
    for name in names:
        path = Path(name)
        if path.is_dir():
            raise BadInput(f"{name!r} is a directory: name files, as in {name}/*.py")
        if not path.exists():
            raise BadInput(f"there is no file {name!r}")
    return list(dict.fromkeys(names))


def _sweep(
    sweep: Sweep, widths: Sequence[Width], runs: int, measure: Callable[[Width], Measured]
) -> bool:
    """Measure all widths, by turns; return whether that was interrupted."""
    took: list[float] = []
    total = runs * len(widths)
    try:
        with stoppable(), Where() as where:
            for number in range(total):
                width = widths[number % len(widths)]
                left = (total - number) * (sum(took) / len(took) if took else 1.0)
                what = str(width)
                where.look(what, number + 1, total, left)
                began = time.monotonic()
                sweep.note(width, measure(width))
                took.append(time.monotonic() - began)
                if sweep.problem is not None or sweep.failed == sweep.files:
                    break  # it would be the same at every width
    except KeyboardInterrupt:
        sweep.partial = True
    return sweep.partial


def _print(sweep: Sweep) -> None:
    if sweep.seconds:
        print_table(width_table(sweep))
    best = sweep.knee()
    if best is not None and sweep.failed < sweep.files:
        click.echo(f"best: --workers {best.workers} --at-once {best.at_once}: {RULE}")
    if sweep.failed:
        click.echo(f"{sweep.failed:,} of {sweep.files:,} files failed: {printable(sweep.reason)}")
    if sweep.problem is not None:
        click.echo(f"failed: {printable(sweep.problem)}")
