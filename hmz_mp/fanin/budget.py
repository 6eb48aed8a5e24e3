"""What one item may use of models.

Pure. Imported by ``fanin``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from hmz_mp.core.limits import check_width

if TYPE_CHECKING:
    from hmz_mp.agents.counting import Used
    from hmz_mp_worker.backends.protocol import Usage

__all__ = ["Budget"]

_MILLION = 1e6


class Budget(msgspec.Struct, frozen=True):
    """Tokens, read and written, and US dollars; 0 is no bound.

    ``prices`` are dollars for a million tokens read and written, which services do not tell.
    Raises `ValueError` for a bound in dollars without prices.
    """

    max_tokens: int = 0
    max_cost: float = 0.0
    prices: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        check_width("max_tokens", self.max_tokens)
        if not all(0 <= one < math.inf for one in (self.max_cost, *self.prices)):
            raise ValueError("max_cost and prices are US dollars, 0 or more")
        if self.max_cost and not any(self.prices):
            raise ValueError("max_cost needs prices=(dollars per million tokens read, written)")

    def priced(self, usage: Usage) -> Usage:
        """Return what was used with its cost, where nobody has said that."""
        read, written = self.prices
        cost = (usage.input_tokens * read + usage.output_tokens * written) / _MILLION
        return msgspec.structs.replace(usage, cost_usd=usage.cost_usd or cost)

    def reached(self, used: Used) -> str | None:
        """Return which bound is reached, in words, or ``None``."""
        if self.max_tokens and used.tokens >= self.max_tokens:
            return f"{used.tokens:,} tokens are used, of {self.max_tokens:,} that were allowed"
        if self.max_cost and used.cost_usd >= self.max_cost:
            return f"${used.cost_usd:,.4f} is spent, of ${self.max_cost:,.4f} that was allowed"
        return None
