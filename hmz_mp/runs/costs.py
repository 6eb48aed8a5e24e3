"""What a run has used of models, by model, and what it may use.

Owns the sums of a run and its budget. Imported by ``runs`` and the command line; it knows nothing
of turns, ledgers or terminals. What is added are differences, so that nothing is counted twice when
a conversation is resumed or a program is used again.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hmz_mp_worker.backends.protocol import Usage

__all__ = ["NO_BUDGET", "Budget", "Costs", "ModelUsage", "read_usage", "read_usages"]

_ROUNDING = 1e-9  # US dollars: sums of floats are not exact


class ModelUsage(msgspec.Struct, frozen=True):
    """What was used of one model. ``cached_tokens`` are part of ``input_tokens``."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0


_NOTHING = (0, 0, 0, 0.0)
_decode = msgspec.json.Decoder(list[ModelUsage]).decode
_decode_many = msgspec.json.Decoder(list[list[ModelUsage]]).decode


def read_usage(text: str) -> list[ModelUsage]:
    """Return what a turn's record says of models."""
    return _decode(text) if text else []


def read_usages(texts: Iterable[str]) -> Iterable[ModelUsage]:
    """Return what many turns' records say of models, all together."""
    return chain.from_iterable(_decode_many(f"[{','.join(filter(None, texts))}]"))


class Costs:
    """What was used so far."""

    def __init__(self) -> None:
        # By model: tokens read, written, read from a cache, and US dollars.
        self._by_model: dict[str, tuple[int, int, int, float]] = {}
        self.tokens = 0  # all that models read, from a cache too, and all that they wrote
        self.cost_usd = 0.0

    def __repr__(self) -> str:
        return f"<Costs {self.tokens} tokens, ${self.cost_usd:.4f}>"

    @property
    def models(self) -> list[ModelUsage]:
        """The sums by model, those of most money and tokens first."""
        found = (ModelUsage(model, *sums) for model, sums in self._by_model.items())
        return sorted(found, key=_weight)

    def add(self, usages: Iterable[Usage | ModelUsage]) -> None:
        """Add what was used since the last time."""
        for usage in usages:
            self.tokens += usage.input_tokens + usage.output_tokens
            self.cost_usd += usage.cost_usd
            read, wrote, cached, dollars = self._by_model.get(usage.model, _NOTHING)
            self._by_model[usage.model] = (
                read + usage.input_tokens,
                wrote + usage.output_tokens,
                cached + usage.cached_tokens,
                dollars + usage.cost_usd,
            )


def _weight(usage: ModelUsage) -> tuple[float, int, str]:
    return -usage.cost_usd, -usage.input_tokens - usage.output_tokens, usage.model


class Budget(NamedTuple):
    """What a run may use: US dollars and tokens; 0 is no bound."""

    max_cost: float = 0.0
    max_tokens: int = 0

    def reached(self, costs: Costs) -> str | None:
        """Return which bound is reached, in words, or ``None``."""
        if self.max_cost and costs.cost_usd >= self.max_cost - _ROUNDING:
            return f"${self.max_cost:,.2f} is spent, the most that was allowed"
        if self.max_tokens and costs.tokens >= self.max_tokens:
            return f"{self.max_tokens:,} tokens are used, the most that was allowed"
        return None

    def excess(self, costs: Costs) -> str | None:
        """Return by how much a bound is exceeded, in words, or ``None``."""
        said = []
        if self.max_cost and (money := costs.cost_usd - self.max_cost) > _ROUNDING:
            said.append(f"${money:,.2f}")
        if self.max_tokens and (tokens := costs.tokens - self.max_tokens) > 0:
            said.append(f"{tokens:,} token{'' if tokens == 1 else 's'}")
        return " and ".join(said) or None


NO_BUDGET = Budget()
