"""Prices, in cents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    """What one thing costs."""

    cents: int

    def __str__(self) -> str:
        return f"{self.cents // 100}.{self.cents % 100:02}"


def parse(text: str) -> Price:
    """Read a price such as 3 or 3.50."""
    whole, _, part = text.partition(".")
    return Price(int(whole) * 100 + int(part.ljust(2, "0") or 0))
