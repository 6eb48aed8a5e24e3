from __future__ import annotations

import pytest

from hmz_mp.runs.costs import NO_BUDGET, Budget, Costs, ModelUsage, read_usage
from hmz_mp_worker.backends.protocol import Usage


def test_sums_by_model() -> None:
    costs = Costs()
    assert (costs.models, costs.tokens, costs.cost_usd) == ([], 0, 0.0)
    costs.add([Usage("haiku", 10, 1, 4, 0.25), Usage("opus", 100, 20, 0, 1.0)])
    costs.add([ModelUsage("haiku", 5, 2, 1, 0.25)])
    costs.add([])
    assert costs.models == [
        ModelUsage("opus", 100, 20, 0, 1.0),
        ModelUsage("haiku", 15, 3, 5, 0.5),
    ]
    assert (costs.tokens, costs.cost_usd) == (138, 1.5)
    assert repr(costs) == "<Costs 138 tokens, $1.5000>"


def test_models_that_cost_nothing_are_in_the_order_of_their_tokens() -> None:
    costs = Costs()
    costs.add([Usage("b", 1, 1), Usage("c", 9, 1), Usage("a", 1, 1)])
    assert [one.model for one in costs.models] == ["c", "a", "b"]


def test_what_is_written_down_is_read() -> None:
    assert read_usage("") == []
    text = '[{"model":"opus","input_tokens":3,"cost_usd":0.5,"later":1}]'
    assert read_usage(text) == [ModelUsage("opus", 3, 0, 0, 0.5)]


@pytest.mark.parametrize(
    ("budget", "usage", "reached", "excess"),
    [
        (NO_BUDGET, Usage("m", 10**9, 10**9, 0, 1e6), None, None),
        (Budget(max_cost=1.0), Usage("m", 10**9, 0, 0, 0.99), None, None),
        (Budget(max_cost=1.0), Usage("m", cost_usd=1.0), "$1.00 is spent", None),
        (Budget(max_cost=1.0), Usage("m", cost_usd=1.25), "$1.00 is spent", "$0.25"),
        (Budget(max_tokens=1000), Usage("m", 900, 99, 900, 9.0), None, None),
        (Budget(max_tokens=1000), Usage("m", 900, 100), "1,000 tokens are used", None),
        (Budget(max_tokens=1000), Usage("m", 2500, 0), "1,000 tokens are used", "1,500 tokens"),
        (
            Budget(1.0, 1000),
            Usage("m", 2500, 0, 0, 1.5),
            "$1.00 is spent",
            "$0.50 and 1,500 tokens",
        ),
    ],
)
def test_a_budget(budget: Budget, usage: Usage, reached: str | None, excess: str | None) -> None:
    costs = Costs()
    costs.add([usage])
    said = budget.reached(costs)
    assert said == (f"{reached}, the most that was allowed" if reached else None)
    assert budget.excess(costs) == excess


def test_ten_dimes_are_a_dollar() -> None:
    costs = Costs()
    for _ in range(10):
        costs.add([Usage("m", cost_usd=0.1)])
    assert costs.cost_usd != 1.0
    assert Budget(max_cost=1.0).reached(costs)
    assert not Budget(max_cost=1.0).excess(costs)
