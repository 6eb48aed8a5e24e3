"""The plot: for each workload a bar for each contender, on a scale of powers of ten, as SVG.

Builds the text itself; readable on light and on dark ground. All text is escaped. Pure.
"""

from __future__ import annotations

import math
import statistics
from html import escape

from hmz_mp_bench import words
from hmz_mp_bench.registry import CONTENDERS, OURS
from hmz_mp_bench.results import Results

__all__ = ["draw"]

_WIDTH = 860
_LEFT = 230  # where bars begin
_RIGHT = 110  # kept for figures
_BAR, _STEP = 14, 20
_HEAD, _FOOT, _GAP = 46, 22, 14
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 14px; }
.quiet { fill: #59636e; font-size: 11px; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.bar { fill: #8c959f; }
.ours { fill: #0969da; }
.page { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .quiet { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .bar { fill: #6e7681; }
  .ours { fill: #4493f8; }
  .page { fill: #0d1117; }
}"""


def draw(results: Results) -> str:
    """Return an SVG document with a panel for each workload that has figures."""
    parts: list[str] = []
    y = _GAP
    for name in results.cells:
        bars = _bars(results, name)
        if bars:
            panel, height = _panel(results, name, bars, y)
            parts += panel
            y += height + _GAP
    title = "Benchmark of hmz_mp and its peers; shorter bars are better"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" '
        f'width="{_WIDTH}" height="{y}" role="img" aria-label="{title}">',
        f"<title>{title}</title>", f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{y}"/>',
        *parts, "</svg>", "",
    ])  # fmt: skip


def _bars(results: Results, name: str) -> list[tuple[str, float]]:
    """Return who was measured and the medians, the least first; zeros have no logarithm."""
    figure = results.workloads[name].figure
    found = [
        (contender, statistics.median(values))
        for contender, cell in results.cells[name].items()
        if (values := cell.values(figure)) and statistics.median(values) > 0
    ]
    return sorted(found, key=lambda pair: pair[1])


def _panel(
    results: Results, name: str, bars: list[tuple[str, float]], y: float
) -> tuple[list[str], int]:
    workload = results.workloads[name]
    low = math.floor(math.log10(bars[0][1]) - 0.15)  # so that the least has a bar too
    high = max(math.ceil(math.log10(bars[-1][1])), low + 1)
    scale = (_WIDTH - _LEFT - _RIGHT) / (high - low)
    height = _HEAD + _STEP * len(bars) + _FOOT
    lines = [
        f'<text class="title" x="{_GAP}" y="{y + 16}">{escape(name)}</text>',
        f'<text class="quiet" x="{_GAP}" y="{y + 32}">{escape(workload.title)}</text>',
    ]
    bottom = y + height - _FOOT
    for power in range(low, high + 1):
        x = _LEFT + (power - low) * scale
        label = escape(words.round_figure(10.0**power, workload.figure, workload.unit))
        lines += [
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y + _HEAD - 6}" y2="{bottom}"/>',
            f'<text class="quiet" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">'
            f"{label}</text>",
        ]
    for at, (contender, value) in enumerate(bars):
        top = y + _HEAD + at * _STEP
        length = (math.log10(value) - low) * scale
        entry = CONTENDERS.get(contender)
        title = escape(entry.title if entry is not None else contender)
        kind = "bar ours" if contender.startswith(OURS) else "bar"
        shown = escape(words.figure(value, workload.figure, workload.unit))
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 11}" text-anchor="end">{title}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{length:.1f}" '
            f'height="{_BAR}" rx="2"/>',
            f'<text x="{_LEFT + length + 6:.1f}" y="{top + 11}">{shown}</text>',
        ]
    return lines, height
