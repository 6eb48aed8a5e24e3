from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.agents import agent_from_spec
from hmz_mp.agents.counting import counters
from hmz_mp.fanin import Finding, Report, Used, ask, counting, fan_out
from hmz_mp_worker.backends.protocol import Usage
from tests.workers.chat.servers import placed

FINDING = {
    "item_id": "{name}",
    "status": "ok",
    "finding": "fine",
    "evidence_ref": "",
    "confidence": "high",
}


def step(read: int) -> dict[str, Any]:
    return {"text": json.dumps(FINDING), "usage": {"input": read, "output": 1}}


SCRIPT = {
    "rules": [
        {"match": "^first.*item (?P<name>a)", "steps": [step(100)]},
        {"match": "^first.*item (?P<name>b)", "steps": [step(200)]},
        {"match": "^second.*item (?P<name>[ab])", "steps": [step(5000)]},
    ]
}


def test_counting_is_nested() -> None:
    with counting() as outer:
        assert counters() == (outer,)
        with counting() as inner:
            assert len(counters()) == 2
            assert counters()[1] is inner
        assert counters() == (outer,)
    assert counters() == ()


def test_what_is_used_is_added_up() -> None:
    used = Used()
    used.add((Usage("m", 100, 2, cost_usd=0.5), Usage("n", 10, 1)))
    assert used == Used(110, 3, 0.5)
    assert used.tokens == 113


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_an_agents_turns_use_is_their_items() -> None:
    reports: dict[str, Report] = {}
    with placed("openai", SCRIPT) as place:
        spec = f"cli=openai,model=tiny,base_url={place.settings.base_url}"
        agent = agent_from_spec(spec)

        async def plainly(item: str) -> Any:
            return await agent.aturn(f"second item {item}", schema=Finding)

        async def look(which: str) -> None:
            work = ask(agent, "first item {item_id}") if which == "first" else plainly
            reports[which] = await fan_out(["a", "b"], work, on_failure="fail")

        # The same agent, and items of the same ids, at once.
        async with Pool(1):
            with counting() as all_of_it:
                async with anyio.create_task_group() as group:
                    group.start_soon(look, "first")
                    group.start_soon(look, "second")
    assert [reports["first"].outcome(one).input_tokens for one in "ab"] == [100, 200]
    assert reports["second"].total("input_tokens") == 10_000
    assert reports["first"].outcome("a").used.turns == 1
    assert all_of_it.tokens == 10_304 == agent.spent.input_tokens + agent.spent.output_tokens
