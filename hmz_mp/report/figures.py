"""The figures of a run: how long turns took, and how that is spread. Pure; imported by ``page``."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hmz_mp.report.cards import Card

__all__ = ["Bin", "Spread", "reasons", "spread"]

_PER_DECADE = 6
_FEWEST_SECONDS = 1e-6


class Bin(NamedTuple):
    """How many turns took between two times, in seconds: those that were ok, and the others."""

    low: float
    high: float
    ok: int
    others: int


class Spread(NamedTuple):
    """The run times of turns: marks on the way from the shortest to the longest, and bins."""

    marks: tuple[tuple[str, float], ...]
    bins: tuple[Bin, ...]

    @property
    def fullest(self) -> int:
        """How many turns the fullest bin has."""
        return max((one.ok + one.others for one in self.bins), default=0)


def spread(cards: Iterable[Card]) -> Spread | None:
    """Return how run times are spread, ``None`` if nothing ran. Bins are of equal ratio."""
    ran = [one for one in cards if one.seconds is not None]
    if not ran:
        return None
    ok = Counter(_bin(one.seconds or 0.0) for one in ran if one.status == "ok")
    others = Counter(_bin(one.seconds or 0.0) for one in ran if one.status != "ok")
    there = ok.keys() | others.keys()
    bins = tuple(
        Bin(
            10 ** (place / _PER_DECADE), 10 ** ((place + 1) / _PER_DECADE), ok[place], others[place]
        )
        for place in range(min(there), max(there) + 1)
    )
    return Spread(_marks(sorted(one.seconds or 0.0 for one in ran)), bins)


def _bin(seconds: float) -> int:
    return math.floor(math.log10(max(seconds, _FEWEST_SECONDS)) * _PER_DECADE)


def _marks(times: Sequence[float]) -> tuple[tuple[str, float], ...]:
    def at(share: float) -> float:
        return times[min(len(times) - 1, int(share * len(times)))]

    return (
        ("shortest", times[0]),
        ("median", at(0.5)),
        ("90 %", at(0.9)),
        ("99 %", at(0.99)),
        ("longest", times[-1]),
        ("all together", math.fsum(times)),
    )


def reasons(cards: Iterable[Card], most: int) -> list[tuple[str, int]]:
    """Return why turns did not go well and how many for each reason, the commonest first."""
    counted = Counter(one.error.partition("\n")[0] for one in cards if one.error)
    return counted.most_common(most)
