"""What somebody is about to buy."""

from price import Price


def total(prices: list[Price], discount: int = 0) -> Price:
    """Add prices up, less a discount in percent."""
    cents = sum(price.cents for price in prices)
    if discount:
        cents -= cents * discount // 100
    return Price(max(cents, 0))
