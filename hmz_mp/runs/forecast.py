"""How many turns of a run that goes on are to come, and how long that will take, from its ledger.

Imported by ``runs.reading`` only. What has not been submitted is not in the ledger; how many items
were selected is, so an item about which there is no turn yet will have one at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hmz_mp.runs.backlog import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Query = Callable[[str, Sequence[Any]], Iterator[tuple[Any, ...]]]

__all__ = ["Forecast", "forecast"]

_WINDOW = 30.0  # seconds: over which the rate is taken, as the bar of ``exec`` does


class Forecast(NamedTuple):
    """How many turns there are to be, and in how many seconds they will have ended, if known."""

    expected: int
    seconds_left: float | None


def forecast(
    query: Query, items: int, counts: Mapping[str, int], began: float, now: float
) -> Forecast:
    """Return what is to come of a run of ``items``, with turns in these states.

    ``query`` gives the rows of a statement; ``began`` is when the last execution began.
    """
    # Both in one look: while the run goes on, the next one has more turns.
    ((turns, known),) = query("SELECT count(*), count(DISTINCT item_id) FROM turns", [])
    expected = turns + max(0, items - known)
    left = expected - sum(counts.get(state, 0) for state in ENDED)
    for start in (max(began, now - _WINDOW), began):
        ((ended,),) = query("SELECT count(*) FROM turns WHERE ended_at > ?", [start])
        if ended and now > start:
            return Forecast(expected, left * (now - start) / ended)
    return Forecast(expected, None)
