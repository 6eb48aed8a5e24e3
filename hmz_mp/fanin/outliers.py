"""Which numbers are far from the others, told by the median and not by the mean.

Pure arithmetic. Imported by ``fanin``; it knows nothing of findings.
"""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["THRESHOLD", "Spread", "outlying", "spread"]

# Iglewicz and Hoaglin, "How to detect and handle outliers" (1993): scores above 3.5 stand out.
# The two factors make either deviation estimate the standard deviation of normal numbers.
THRESHOLD = 3.5
_OF_MEDIAN = 1.482602
_OF_MEAN = 1.253314
_HUGE = 1e290  # sums of such numbers may be none that a float can hold
_SHRINK = 2.0**-100
_NOISE = 1e-9  # relative: what floats differ by that are meant to be the same


class Spread(NamedTuple):
    """Where numbers lie: ``scale`` is what one of them usually differs from the ``median`` by."""

    median: float
    scale: float
    smallest: float
    largest: float


def spread(numbers: Mapping[str, float]) -> Spread | None:
    """Return where the finite numbers lie, or ``None`` if there are none.

    The scale comes from the median of the distances to the median; where that is 0, as more than
    half of the numbers are the same, from their mean; it is 0 where all are the same.
    """
    finite = [one for one in numbers.values() if math.isfinite(one)]
    if not finite:
        return None
    smallest, largest = min(finite), max(finite)
    shrink = _SHRINK if max(largest, -smallest) > _HUGE else 1.0
    finite = [one * shrink for one in finite]
    middle = median(finite)
    distances = [0.0 if _same(one, middle) else abs(one - middle) for one in finite]
    scale = _OF_MEDIAN * median(distances) or _OF_MEAN * fmean(distances)
    return Spread(middle / shrink, scale / shrink, smallest, largest)


def outlying(numbers: Mapping[str, float], threshold: float = THRESHOLD) -> dict[str, float]:
    """Return which numbers stand out and how many times the usual distance, the farthest first.

    An infinite number always does; one that is no number (NaN) never.
    """
    found = spread(numbers)
    scores = {key: _score(one, found) for key, one in numbers.items() if not math.isnan(one)}
    far = {key: score for key, score in scores.items() if score > threshold}
    return dict(sorted(far.items(), key=lambda pair: -pair[1]))


def _score(number: float, found: Spread | None) -> float:
    if found is None or math.isinf(number):
        return math.inf
    if _same(number, found.median) or not found.scale:
        return 0.0
    return abs(number - found.median) / found.scale


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_NOISE)
