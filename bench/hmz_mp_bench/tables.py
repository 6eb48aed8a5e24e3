"""The tables, as rows of text: for a terminal, and as Markdown. Pure; figures are in `words`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from hmz_mp_bench import words
from hmz_mp_bench.registry import CONTENDERS, OURS
from hmz_mp_bench.results import Cell, Results
from hmz_mp_bench.targets import verdicts
from hmz_mp_bench.workloads import Workload

__all__ = ["Table", "machine_line", "markdown", "target_table", "workload_table"]


class Table(NamedTuple):
    """A title, the heads of its columns, its rows, and what is said below."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    below: list[str]


def title_of(contender: str) -> str:
    """Return a contender's name for people."""
    entry = CONTENDERS.get(contender)
    return entry.title if entry is not None else contender


def workload_table(results: Results, name: str) -> Table:
    """Return one workload's results, the best first."""
    workload = results.workloads[name]
    cells = results.cells[name]
    heads = ["", "median", "min to max", "runs", *(["a second"] if workload.per_call else [])]
    heads += [*workload.extra, "to ours"]
    measured = [(one, cell) for one, cell in cells.items() if cell.values(workload.figure)]
    measured.sort(key=lambda pair: statistics.median(pair[1].values(workload.figure)))
    rows = [_row(results, name, contender, cell) for contender, cell in measured]
    return Table(f"{name}: {_title(results, workload)}", heads, rows, _below(results, name))


def _title(results: Results, workload: Workload) -> str:
    if results.size == "full":
        return workload.title
    return f"{workload.title} ({results.size}: {workload.counts[results.size]:,} calls)"


def _row(results: Results, name: str, contender: str, cell: Cell) -> list[str]:
    workload = results.workloads[name]
    values = cell.values(workload.figure)
    median = statistics.median(values)
    row = [title_of(contender), words.figure(median, workload.figure, workload.unit),
           words.spread(values, workload.figure, workload.unit), str(len(values))]  # fmt: skip
    if workload.per_call:
        row.append(words.rate(median))
    for extra in workload.extra:
        value = results.median(name, contender, extra)
        row.append("" if value is None else words.figure(value, extra, workload.unit))
    ratio = results.ratio(name, contender, OURS)
    return [*row, "" if ratio is None else words.times(ratio)]


def _below(results: Results, name: str) -> list[str]:
    workload = results.workloads[name]
    lines = [workload.note] if workload.note else []
    fewer = {
        title_of(one): workload.count(one, results.size)
        for one, cell in results.cells[name].items()
        if cell.samples and workload.count(one, results.size) < workload.counts[results.size]
    }
    if fewer:
        said = ", ".join(f"{title} {count:,}" for title, count in fewer.items())
        lines.append(f"fewer calls, as each takes so long: {said}")
    reasons: dict[str, list[str]] = {}
    for contender, cell in results.cells[name].items():
        reason = cell.problem or cell.left_out
        if reason is not None:
            reasons.setdefault(reason, []).append(title_of(contender))
    return lines + [f"{', '.join(titles)}: {reason}" for reason, titles in reasons.items()]


def target_table(results: Results) -> Table:
    """Return what is to be reached, and what was."""
    rows = []
    for target, verdict in verdicts(results):
        measured, reached = ("not measured", "") if verdict is None else verdict
        rows.append([target.workload, target.text, measured, _reached(reached)])
    below = [] if results.size == "full" else ["with fewer calls than the targets are meant for"]
    return Table("What is to be reached", ["", "target", "measured", ""], rows, below)


def _reached(reached: bool | str) -> str:
    return reached if isinstance(reached, str) else "reached" if reached else "not reached"


# Markdown.


def markdown(results: Results) -> str:
    """Return all tables as Markdown: targets, all contenders by workload, and each workload."""
    parts = [_about(results), _as_markdown(target_table(results)), _as_markdown(overview(results))]
    parts += [_as_markdown(workload_table(results, name)) for name in results.cells]
    return "\n\n".join(parts) + "\n"


def overview(results: Results) -> Table:
    """Return the medians of every contender on every workload."""
    names = list(results.cells)
    contenders = dict.fromkeys(one for name in names for one in results.workloads[name].contenders)
    rows = []
    for contender in contenders:
        cells = [results.cells[name].get(contender) for name in names]
        if any(cell is not None and (cell.samples or cell.problem) for cell in cells):
            rows.append(
                [title_of(contender), *(_short(results, name, contender) for name in names)]
            )
    return Table("Medians of all", ["", *names], rows, [])


def _short(results: Results, name: str, contender: str) -> str:
    workload = results.workloads[name]
    value = results.median(name, contender)
    if value is not None:
        return words.figure(value, workload.figure, workload.unit)
    cell = results.cells[name].get(contender)
    return "failed" if cell is not None and cell.problem is not None else ""


def machine_line(results: Results) -> str:
    """Return what it was measured on."""
    about = results.about
    load = about.get("load", 0.0)
    busy = " (other programs ran: small differences mean nothing)" * _was_busy(results)
    return (
        f"{about.get('implementation')} {about.get('python')}, {about.get('system')}, "
        f"{about.get('cpus')} CPUs ({about.get('processor')}), {results.workers} workers, "
        f"load {load:.1f} at the beginning{busy}"
    )


def _was_busy(results: Results) -> bool:
    """Whether what ran here before it began took a good part of the CPUs."""
    return bool(results.about.get("load", 0.0) > results.about.get("cpus", 1) / 4)


def _about(results: Results) -> str:
    versions = results.about.get("versions", {})
    said = ", ".join(f"{name} {one}" for name, one in versions.items() if one is not None)
    partial = " **Interrupted: partial.**" if results.partial else ""
    return f"{_escaped(machine_line(results))}. With {_escaped(said)}.{partial}"


def _as_markdown(table: Table) -> str:
    lines = [f"### {_escaped(table.title)}", "", _line(table.heads)]
    lines.append("|" + "---|" * len(table.heads))
    lines += map(_line, table.rows)
    if table.below:
        lines += ["", *(f"- {_escaped(line)}" for line in table.below)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Return foreign text (reasons, names of processors) that Markdown shows as it is."""
    text = " ".join(text.split())
    for special in ("\\", "`", "*", "_", "<", "[", "#"):
        text = text.replace(special, f"\\{special}")
    return text
