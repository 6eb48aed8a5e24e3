"""What turns have used of models: added up for a record, and for an agent.

Owns the sums. Each turn reports differences, so that nothing is counted twice when a conversation
is resumed or a program is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hmz_mp_worker.backends.protocol import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hmz_mp.core.ambient import TurnRecord

__all__ = ["Spent", "Usages"]

_read = msgspec.json.Decoder(list[dict[str, str | int | float]]).decode


class Spent(msgspec.Struct, frozen=True):
    """What an agent's turns have cost so far. ``tool/`` and ``sh/`` use no model: all zeros.

    ``input_tokens`` are all that was read, those from a cache too. ``cost_usd`` is what the
    agent's program says it costs, and 0 where it says nothing.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class Usages:
    """What all turns of one agent have used."""

    def __init__(self) -> None:
        self._spent = Spent()

    @property
    def spent(self) -> Spent:
        """The sum so far."""
        return self._spent

    def recall(self, record: TurnRecord) -> None:
        """Add what a turn had used that is answered from what was written down."""
        self._spent = _sum(
            self._spent,
            Usage("", record.input_tokens, record.output_tokens, cost_usd=record.cost_usd),
        )

    def add(self, usages: Iterable[Usage], record: TurnRecord) -> None:
        """Add what a turn has used to its record, and to the sum."""
        by_model = {one["model"]: one for one in _read(record.usage)} if record.usage else {}
        for usage in usages:
            record.input_tokens += usage.input_tokens
            record.output_tokens += usage.output_tokens
            record.cost_usd += usage.cost_usd
            self._spent = _sum(self._spent, usage)
            before = by_model.get(usage.model, {})
            by_model[usage.model] = {
                "model": usage.model,
                "input_tokens": _plus(before, "input_tokens", usage.input_tokens),
                "output_tokens": _plus(before, "output_tokens", usage.output_tokens),
                "cached_tokens": _plus(before, "cached_tokens", usage.cached_tokens),
                "cost_usd": _plus(before, "cost_usd", usage.cost_usd),
            }
        record.usage = msgspec.json.encode(list(by_model.values())).decode()


def _sum(spent: Spent, usage: Usage) -> Spent:
    return Spent(
        spent.input_tokens + usage.input_tokens,
        spent.output_tokens + usage.output_tokens,
        spent.cost_usd + usage.cost_usd,
    )


def _plus(before: dict[str, str | int | float], name: str, more: float) -> float:
    value = before.get(name, 0)
    return more + value if isinstance(value, (int, float)) else more
