from __future__ import annotations

import json

from hmz_mp.agents.usage import Spent, Usages
from hmz_mp.core.ambient import TurnRecord
from hmz_mp_worker.backends.protocol import Usage


def record() -> TurnRecord:
    return TurnRecord("item", "claude/opus", "a", "a-1", 0, "go")


def test_turns_are_added_up_and_each_keeps_its_own() -> None:
    usages = Usages()
    assert usages.spent == Spent()
    one, two = record(), record()
    usages.add([Usage("opus", 10, 2, 5, 0.5), Usage("haiku", 3, 1, 0, 0.25)], one)
    usages.add([Usage("opus", 1, 1, 1, 0.25)], one)  # another attempt
    usages.add([Usage("opus", 100, 0, 0, 0.0)], two)
    assert usages.spent == Spent(114, 4, 1.0)
    assert (one.input_tokens, one.output_tokens, one.cost_usd) == (14, 4, 1.0)
    assert json.loads(one.usage) == [
        {
            "model": "opus",
            "input_tokens": 11,
            "output_tokens": 3,
            "cached_tokens": 6,
            "cost_usd": 0.75,
        },
        {
            "model": "haiku",
            "input_tokens": 3,
            "output_tokens": 1,
            "cached_tokens": 0,
            "cost_usd": 0.25,
        },
    ]
    assert two.input_tokens == 100


def test_nothing_used_is_nothing_written() -> None:
    one = record()
    assert one.usage == ""
    assert (one.input_tokens, one.cost_usd) == (0, 0.0)
