"""``at_once="auto"``: how many turns of an agent go at once is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, agent_from_spec
from hmz_mp.core import limits
from hmz_mp.core.width import CEILING, START
from tests.agents.conftest import running
from tests.agents.test_agent import most_at_once
from tests.fakes.programs import fake_claude

pytestmark = pytest.mark.anyio

NOTE = "cli=tool,model=tests.agents.functions:anote"


def prompts(file: Path, count: int) -> list[str]:
    return [f"{file}|{number}|0.02" for number in range(count)]


def claude(folder: Path, more: str = "") -> Agent:
    return agent_from_spec(f"cli=claude,model=opus,program={fake_claude(folder)}{more}")


@pytest.mark.parametrize("how", ["batch", "spec", "bound"])
async def test_it_widens_while_all_goes_well(tmp_path: Path, how: str) -> None:
    file = tmp_path / "notes"
    async with Pool(1) as pool:
        agent = agent_from_spec(f"{NOTE},at_once=auto" if how == "spec" else NOTE)
        if how == "bound":
            agent.bound("auto")
        given: Any = {"at_once": "auto"} if how != "bound" else {}
        await agent.abatch(prompts(file, 6 * START), **given)
        found = pool.statistics().limits[agent.id]
        assert pool.widths() == {agent.id: found.width}
    assert START < found.width <= CEILING
    assert START < found.widest <= CEILING
    assert START < most_at_once(file) <= found.widest
    assert (found.used, found.waiting, found.at_once) == (0, 0, 0)


async def test_a_number_in_the_spec_is_kept_to(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    async with Pool(1) as pool:
        agent = agent_from_spec(f"{NOTE},at_once=3")
        agent.bound("auto")
        await agent.abatch(prompts(file, 12))
        assert pool.widths() == {}
    assert most_at_once(file) == 3


async def test_answers_as_they_come(tmp_path: Path) -> None:
    agent = agent_from_spec(NOTE)
    async with Pool(1):
        answers = [one async for one in agent.amap(prompts(tmp_path / "n", 20), at_once="auto")]
    assert len(answers) == 20


async def test_a_service_that_is_too_busy_halves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "random", lambda: 0.0)
    agent = claude(tmp_path)
    async with Pool(1) as pool:
        with running(pool) as run:
            busy = [f"busy {tmp_path / 'asked'} 2", "sleep 0.3", "sleep 0.3", "sleep 0.3"]
            await agent.abatch(busy, at_once="auto")
        assert pool.widths() == {"claude": 1}  # of four in flight two, and of those one
        assert pool.statistics().retried == 0
    assert [record.state for record in run.records()] == ["ok"] * 4


async def test_without_backing_off_it_is_halved_too(tmp_path: Path) -> None:
    agent = claude(tmp_path, ",backoff=false")
    async with Pool(1) as pool:
        with pytest.raises(Failed, match="too busy"):
            await agent.abatch([f"busy {tmp_path / 'asked'} 9"] * 2, at_once="auto")
        assert pool.widths() == {agent.id: 1}


async def test_what_is_no_width_is_refused() -> None:
    agent = agent_from_spec(NOTE)
    for wrong in ("wide", -1):
        with pytest.raises(ValueError, match="at_once cannot be"):
            await agent.abatch(["a"], at_once=wrong)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="'auto'"):
        Pool(1).limit("x", "many")  # type: ignore[arg-type]  # on purpose
