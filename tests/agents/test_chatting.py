"""``openai/`` and ``anthropic/`` agents through a pool, their SDKs against scripted services."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Failed, Prompt, Spent, Stopped, Unrecoverable, agent_from_spec
from tests.agents.conftest import FakeRun, running
from tests.helpers import await_until
from tests.workers.chat.servers import SERVICES, Place, placed

# What depends on the loop is in `test_conversing`.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

USAGE = {"input": 100, "output": 7}
SCRIPT: dict[str, Any] = {
    "rules": [
        {"match": "^say (?P<word>.*)", "steps": [{"text": "{word}", "usage": USAGE}]},
        {"match": "^number", "steps": [{"text": '{"n": 3}'}]},
        {"match": "^fence", "steps": [{"text": '```json\n{"n": 4}\n```'}]},
        {"match": "^nearly", "steps": [{"text": "four"}]},
        {"match": "^never|fit Never", "steps": [{"text": "never"}]},
        {"match": "^Your answer cannot be used", "steps": [{"text": '{"n": 4}'}]},
        {"match": "^busy", "steps": [{"status": 429, "times": 2, "retry_after": 0.05}]},
        {"match": "^limited", "steps": [{"status": 429, "times": 99, "retry_after": 7}]},
        {"match": "^nobody", "steps": [{"status": 401, "times": 99}]},
        {
            "match": "^too long",
            "steps": [{"status": 400, "times": 9, "message": "prompt is too long"}],
        },
        {
            "match": "^cut",
            "steps": [{"stream_cut": True, "times": 99, "text": "a b c d e f g h i j"}],
        },
        {"match": "^hang", "steps": [{"hang_s": 30, "times": 99}]},
        {"match": "^slow", "steps": [{"text": "one two three four five six", "word_s": 0.01}]},
        {"match": "^long", "steps": [{"text": "one", "finish_reason": "length"}]},
    ],
    "default": {"steps": [{"text": "scripted", "usage": USAGE}]},
}


class Number(msgspec.Struct):
    n: int


class Never(msgspec.Struct):
    n: int


@pytest.fixture(scope="module", autouse=True)
def _key() -> Iterator[None]:
    """Set a key before the pool begins, whose workers have its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HMZ_MP_TEST_KEY", "sk-secret")
        yield


@pytest.fixture(scope="module", params=SERVICES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with placed(request.param, SCRIPT) as place:
        yield place


Make = Callable[..., Agent]


@pytest.fixture
def make(place: Place) -> Make:
    def make(**settings: Any) -> Agent:
        given = {"base_url": place.settings.base_url, "backoff": "false", **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli={place.service},model=tiny{words}")

    return make


def texts(place: Place) -> list[str]:
    """Return what was said in the last request, in order."""
    found = []
    for message in place.body()["messages"]:
        content = message["content"]
        found.append(content if isinstance(content, str) else content[0]["text"])
    return found


async def failure(turn: Any) -> Failed:
    with pytest.raises(Failed) as caught:
        await turn
    return caught.value


# Turns -----------------------------------------------------------------------------------------


async def test_a_turn_and_what_it_cost(pool: Pool, make: Make) -> None:
    agent = make()
    assert agent.waits
    with running(pool) as run:
        assert await agent.aturn("say hello") == "hello"
    (record,) = run.records()
    assert (record.state, record.answer) == ("ok", "hello")
    assert (record.input_tokens, record.output_tokens, record.cost_usd) == (100, 7, 0)
    assert msgspec.json.decode(record.usage)[0]["model"] == "tiny"
    assert agent.spent == Spent(100, 7, 0.0)


async def test_a_batch_is_in_order_and_runs_in_one_worker(pool: Pool, make: Make) -> None:
    agent = make()
    with running(pool) as run:
        answers = await agent.abatch([f"say {number}" for number in range(40)])
    assert answers == [str(number) for number in range(40)]
    assert len({record.worker for record in run.records()}) == 1


async def test_turns_that_stand_alone_share_no_history(
    pool: Pool, make: Make, place: Place
) -> None:
    agent = make()
    await agent.abatch(["say a", "say b"], at_once=1)
    assert texts(place) == ["say b"]


async def test_a_session_is_one_conversation(pool: Pool, make: Make, place: Place) -> None:
    one, two = make().batch_new(2)
    await one.aturn("say a")
    await two.aturn("say x")
    assert texts(place) == ["say x"]
    await one.aturn("say b")
    assert texts(place) == ["say a", "a", "say b"]
    assert "".join([piece async for piece in one.stream("say c and d")]) == "c and d"
    assert texts(place) == ["say a", "a", "say b", "b", "say c and d"]


async def test_an_answer_comes_in_pieces(pool: Pool, make: Make) -> None:
    pieces = [piece async for piece in make().new().stream("slow")]
    assert pieces[0] == "one two three "
    assert "".join(pieces) == "one two three four five six"


async def test_settings_reach_the_service(pool: Pool, make: Make, place: Place) -> None:
    await make(system="Be brief, please.", max_tokens=5, effort="low").aturn("say a")
    body = place.body()
    said = body["messages"][0]["content"] if place.service == "openai" else body["system"]
    assert said == "Be brief, please."


async def test_an_items_file_is_in_the_prompt(
    pool: Pool, make: Make, place: Place, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    prompt = Prompt("say a", path="a.py")
    await make().aturn(prompt, cwd=tmp_path)
    assert texts(place) == ['say a\n\n<file path="a.py">\nx = 1\n</file>']
    await make(attach="false").aturn(prompt, cwd=tmp_path)
    assert texts(place) == ["say a"]
    failed = await failure(make().aturn(Prompt("say a", path="b.py"), cwd=tmp_path))
    assert failed.kind == "refused"


async def test_schemas(pool: Pool, make: Make, place: Place) -> None:
    agent = make()
    assert await agent.aturn("number please", schema=Number) == Number(3)
    assert await agent.aturn("fence it", schema=Number) == Number(4)
    assert await agent.aturn("nearly one", schema=Number) == Number(4)
    assert texts(place)[:2] == ["nearly one", "four"]
    before = len(place.server.requests)
    failed = await failure(agent.aturn("never one", schema=Never))
    assert (failed.kind, failed.output) == ("schema", "never")
    assert len(place.server.requests) - before == 3


async def test_an_objective_is_one_turn(pool: Pool, make: Make) -> None:
    assert await make().apursue("say done") == "done"


async def test_nothing_is_said_to_a_turn_that_runs(pool: Pool, make: Make) -> None:
    session = make().new()
    with pytest.raises(RuntimeError, match="in the middle of a turn"):
        session.interject("faster")


# Conversations that go on ----------------------------------------------------------------------


# The rest of these begins new workers, which import the SDK anew, so one service is enough.
one_service = pytest.mark.parametrize("place", ["openai"], indirect=True)


async def lost_worker(run: FakeRun) -> int:
    """Kill the worker of the last turn."""
    worker = run.records()[-1].worker
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    return worker


@one_service
async def test_a_session_goes_on_when_its_worker_was_killed(
    pool: Pool, make: Make, place: Place
) -> None:
    session = make().new()
    with running(pool) as run:
        await session.aturn("say a")
        before = place.server.asked("hang in there")
        failures: list[Failed] = []

        async def lose() -> None:
            failures.append(await failure(session.aturn("hang in there")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lose)
            await await_until(lambda: place.server.asked("hang in there") > before)
            worker = await lost_worker(run)
        assert await session.aturn("say b") == "b"
    assert texts(place) == ["say a", "a", "say b"]
    assert run.records()[-1].worker != worker
    assert len({record.conversation for record in run.records()}) == 1


@one_service
async def test_a_conversation_that_is_gone(pool: Pool, make: Make, place: Place) -> None:
    agent = make()
    session = agent.new()
    with running(pool) as run:
        await session.aturn("say a")
        worker = await lost_worker(run)
        await await_until(lambda: all(one.pid != worker for one in pool.statistics().workers))
    for file in _folder(agent).glob("*"):
        file.unlink()
    failed = await failure(session.aturn("say b"))
    assert failed.kind == "died"
    assert "no longer there" in failed.reason
    assert await session.aturn("say c") == "c"  # it is another one from now on
    assert texts(place) == ["say c"]


async def test_a_turn_that_fails_is_not_in_the_conversation(
    pool: Pool, make: Make, place: Place
) -> None:
    session = make().new()
    await session.aturn("say a")
    await failure(session.aturn("cut it"))
    await failure(session.aturn("never one", schema=Never))
    await session.aturn("say b")
    assert texts(place) == ["say a", "a", "say b"]


async def test_conversations_go_with_their_agent(pool: Pool, make: Make) -> None:
    agent = make()
    await agent.new().aturn("say a")
    folder = _folder(agent)
    assert len(list(folder.iterdir())) == 1
    del agent

    def gone() -> bool:
        gc.collect()
        return not folder.exists()

    await await_until(gone)


def _folder(agent: Agent) -> Path:
    return Path(agent._engine.args[0].folder)


# Failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("limited", "limited"),
        ("nobody", "unauthorised"),
        ("cut", "overloaded"),
        ("hang", "stalled"),
    ],
)
async def test_failures_say_of_what_sort_they_are(
    pool: Pool, make: Make, prompt: str, kind: str
) -> None:
    stall = 0.2 if prompt == "hang" else 20
    failed = await failure(make(stall=stall).aturn(prompt))
    assert failed.kind == kind
    assert failed.retry_after == (7 if kind == "limited" else None)


async def test_too_long(pool: Pool, make: Make) -> None:
    with pytest.raises(Unrecoverable):
        await make().aturn("too long", suppress=True)


@one_service
async def test_a_busy_service_is_waited_for(pool: Pool, make: Make, place: Place) -> None:
    prompt = f"busy, number {len(place.server.requests)}"  # faults are counted by prompt
    with running(pool) as run:
        assert await make(backoff="true").aturn(prompt) == "ok"
    (record,) = run.records()
    assert record.attempts == 3


async def test_stopping_in_the_middle(pool: Pool, make: Make, place: Place) -> None:
    agent, other = make(), make()
    before = place.server.asked("hang on")
    ended: list[object] = []

    async def ask() -> None:
        try:
            ended.append(await agent.aturn("hang on"))
        except Stopped as error:
            ended.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await await_until(lambda: place.server.asked("hang on") > before)
        agent.stop()
    assert isinstance(ended[0], Stopped)
    assert await other.aturn("say a") == "a"


async def test_the_key_is_in_no_record(pool: Pool, make: Make, place: Place) -> None:
    with running(pool) as run:
        agent = make(key_env="HMZ_MP_TEST_KEY")
        assert await agent.aturn("say a") == "a"
        await failure(agent.aturn("nobody"))
    assert "sk-secret" in json.dumps(place.server.requests[-1]["headers"])
    assert "sk-secret" not in str(msgspec.to_builtins(run.records()))
