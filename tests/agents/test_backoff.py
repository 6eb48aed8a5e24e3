"""Agents whose service is too busy: turns are put back, and everybody on the account waits."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, agent_from_spec
from hmz_mp.agents.turns import TurnEvent
from hmz_mp.core import limits
from hmz_mp.core.backoff import SETBACKS
from hmz_mp.core.turns import PutBack
from hmz_mp.errors import Stopped
from tests.agents.conftest import running
from tests.fakes.programs import fake_claude

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pauses that nobody asked for be none."""
    monkeypatch.setattr(limits, "random", lambda: 0.0)


def claude(folder: Path, more: str = "") -> Agent:
    return agent_from_spec(f"cli=claude,model=opus,program={fake_claude(folder)}{more}")


async def test_a_turn_is_put_back_and_served_later(tmp_path: Path) -> None:
    agent = claude(tmp_path)
    async with Pool(1) as pool:
        with running(pool) as run:
            assert await agent.aturn(f"busy {tmp_path / 'asked'} 2") == "served"
        assert pool.statistics().retried == 0
    (record,) = run.records()
    told = [(what, state) for what, _, state in run.told if what != "said"]
    assert told == [
        ("submitted", "queued"),
        ("began", "running"),
        ("began", "running"),
        ("began", "running"),
        ("ended", "ok"),
    ]
    events = [event for what, _, event in run.told if what == "said"]
    assert sum(isinstance(event, PutBack) for event in events) == 2
    assert (record.attempts, record.input_tokens) == (3, 300)
    assert agent.spent.input_tokens == 300  # what was refused was paid for by this program


async def test_a_turn_that_stays_refused_fails(tmp_path: Path) -> None:
    agent = claude(tmp_path)
    async with Pool(1):
        with pytest.raises(Failed) as caught:
            await agent.aturn(f"busy {tmp_path / 'asked'} 99")
    assert caught.value.kind == "overloaded"
    assert len((tmp_path / "asked").read_text().splitlines()) == SETBACKS + 1


async def test_without_backing_off_it_fails_at_once(tmp_path: Path) -> None:
    agent = claude(tmp_path, ",backoff=false")
    async with Pool(1):
        with pytest.raises(Failed, match="too busy"):
            await agent.aturn(f"busy {tmp_path / 'asked'} 1")
        assert await agent.aturn(f"busy {tmp_path / 'asked'} 1") == "served"


async def test_a_session_goes_on_in_order(tmp_path: Path) -> None:
    agent = claude(tmp_path)
    answers: list[str] = []
    async with Pool(1):
        session = agent.new()

        async def ask(prompt: str) -> None:
            answers.append(await session.aturn(prompt))

        async with anyio.create_task_group() as tasks:
            for prompt in (f"busy {tmp_path / 'asked'} 1", "say second", "say third"):
                tasks.start_soon(ask, prompt)
                await anyio.lowlevel.checkpoint()
    assert answers == ["served", "second", "third"]


async def test_everybody_on_the_account_waits_and_stopping_ends_the_wait(tmp_path: Path) -> None:
    first, second = claude(tmp_path), claude(tmp_path)
    waits = anyio.Event()
    stopped: list[str] = []

    async def ask(agent: Agent, prompt: str) -> None:
        with pytest.raises(Stopped) as caught:
            await agent.aturn(prompt)
        stopped.append(caught.value.reason)

    async with Pool(1) as pool:
        with running(pool) as run:

            def look(event: TurnEvent) -> None:
                if event.record.state == "waiting":
                    waits.set()

            unwatch = first.watch(look)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, first, "retry 429 3600")
                await waits.wait()
                tasks.start_soon(ask, second, "say hello")
                await anyio.wait_all_tasks_blocked()
                assert [one.state for one in run.records()] == ["waiting", "queued"]
                first.stop("enough")
                second.stop("enough")
            unwatch()
    assert stopped == ["enough", "enough"]
    assert [one.state for one in run.records()] == ["not_run", "not_run"]
