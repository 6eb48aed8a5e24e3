"""What twelve checks cost by each way; the figures themselves are in tests/docs/test_fan_in.py."""

from __future__ import annotations

from bench.fanin.__main__ import Cost, table


def test_the_table() -> None:
    costs = [Cost("one", 13, 25_000, 200, 6.66), Cost("together", 2, 2_500, 100, 0.9)]
    assert table(costs).splitlines()[2:] == [
        "| one | 13 | 25,000 | 200 | 6.7 |",
        "| together | 2 | 2,500 (10%) | 100 | 0.9 |",
    ]
