"""How figures are written: seconds, bytes, rates and ratios with three digits. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["figure", "rate", "round_figure", "spread", "times"]

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
# Figures that are neither seconds nor bytes, and those that are always bytes.
PLAIN = frozenset({"over"})
BYTES = frozenset({"growth", "private", "others", "worker", "each"})


def figure(value: float, name: str, unit: str) -> str:
    """Return a figure with its unit: ``12.3 µs``, ``2.90 MB``."""
    scale, word = _scale(value, name, unit)
    return f"{_digits(value / scale)} {word}".rstrip()


def round_figure(value: float, name: str, unit: str) -> str:
    """Return a figure that is a round number, as on a scale: ``10 µs``."""
    scale, word = _scale(value, name, unit)
    return f"{value / scale:,.6g} {word}"


def spread(values: Sequence[float], name: str, unit: str) -> str:
    """Return the least and the most, in the unit of the most: ``12.1 to 13.0 µs``."""
    least, most = min(values), max(values)
    if least == most:
        return figure(most, name, unit)
    scale, word = _scale(most, name, unit)
    return f"{_digits(least / scale)} to {_digits(most / scale)} {word}".rstrip()


def rate(seconds: float) -> str:
    """Return how many there are in a second."""
    per_second = 1 / seconds if seconds else 0.0
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def times(ratio: float) -> str:
    """Return a ratio: ``0.92 ×``, ``25.3 ×``, ``1,230 ×``."""
    return f"{_digits(ratio)} ×"


def _scale(value: float, name: str, unit: str) -> tuple[float, str]:
    if name in PLAIN:
        return 1.0, "×"
    units = _BYTES if unit == "bytes" or name in BYTES else _TIMES
    return next((one for one in units if abs(value) >= one[0]), units[-1])


def _digits(value: float) -> str:
    size = abs(value)
    if 0 < size < 0.01:
        return f"{value:.2g}"
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
