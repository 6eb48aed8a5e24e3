"""What was measured: every sample of every contender, and what there is instead of one.

Pure; knows how it is written as JSON, and nothing of terminals.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from hmz_mp_bench.procedures import Figures
from hmz_mp_bench.workloads import WORKLOADS, Size, Workload

__all__ = ["Cell", "Results"]

FORMAT = 1  # of the JSON


@dataclass(slots=True)
class Cell:
    """One contender on one workload: its samples, or why there are none.

    ``left_out`` says why it was not asked, ``problem`` what went wrong when it was.
    """

    samples: list[Figures] = field(default_factory=list)
    problem: str | None = None
    left_out: str | None = None

    def values(self, figure: str) -> list[float]:
        """Return one figure of each sample; none of a contender that failed."""
        if self.problem is not None:
            return []
        return [sample[figure] for sample in self.samples if figure in sample]


@dataclass(slots=True)
class Results:
    """All cells, by workload and contender, in the order of the table; and on what, and how."""

    workloads: dict[str, Workload]
    size: Size = "full"
    workers: int = 2
    about: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    partial: bool = False  # it was interrupted

    def cell(self, workload: str, contender: str) -> Cell:
        """Return a cell, made now if there is none."""
        return self.cells.setdefault(workload, {}).setdefault(contender, Cell())

    def median(self, workload: str, contender: str, figure: str = "") -> float | None:
        """Return the median of a figure, the compared one by default, or ``None``."""
        cell = self.cells.get(workload, {}).get(contender)
        if cell is None:
            return None
        values = cell.values(figure or self.workloads[workload].figure)
        return statistics.median(values) if values else None

    def ratio(self, workload: str, contender: str, to: str) -> float | None:
        """Return how many times another's figure a contender's is."""
        mine, others = self.median(workload, contender), self.median(workload, to)
        return mine / others if mine is not None and others else None

    @property
    def problems(self) -> list[tuple[str, str, str]]:
        """Every contender that failed: the workload, its name, and what happened."""
        return [
            (workload, contender, cell.problem)
            for workload, cells in self.cells.items()
            for contender, cell in cells.items()
            if cell.problem is not None
        ]

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Results:
        """Return what `as_json` wrote. Raises `ValueError` or the like for anything else."""
        if written["format"] != FORMAT:
            raise ValueError(f"its format is {written['format']!r}, not {FORMAT}")
        workloads = {name: WORKLOADS[name] for name in written["workloads"]}
        results = cls(
            workloads, written["size"], written["workers"], written["about"],
            partial=written["partial"],
        )  # fmt: skip
        for name, workload in written["workloads"].items():
            for contender, cell in workload["contenders"].items():
                samples = [
                    {str(figure): float(value) for figure, value in sample.items()}
                    for sample in cell.get("samples", ())
                ]
                results.cells.setdefault(name, {})[contender] = Cell(
                    samples, cell.get("problem"), cell.get("left_out")
                )
        return results

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        return {
            "format": FORMAT,
            "size": self.size,
            "workers": self.workers,
            "partial": self.partial,
            "about": self.about,
            "workloads": {name: self._workload_as_json(name) for name in self.cells},
        }

    def _workload_as_json(self, name: str) -> dict[str, Any]:
        workload = self.workloads[name]
        return {
            "title": workload.title,
            "figure": workload.figure,
            "unit": workload.unit,
            "contenders": {
                contender: _cell_as_json(cell, workload.figure)
                for contender, cell in self.cells[name].items()
            },
        }


def _cell_as_json(cell: Cell, figure: str) -> dict[str, Any]:
    if cell.left_out is not None:
        return {"left_out": cell.left_out}
    if cell.problem is not None:
        return {"problem": cell.problem}
    values = cell.values(figure)
    summary: dict[str, Any] = {}
    if values:
        summary = {
            "minimum": min(values),
            "median": statistics.median(values),
            "maximum": max(values),
        }
    return {**summary, "samples": cell.samples}
