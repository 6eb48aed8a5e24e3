"""A real, tiny model over ``openai/`` and ``anthropic/``: what it says is nobody's business."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import msgspec
import pytest

from hmz_mp import Pool
from hmz_mp.agents import Agent, Unrecoverable, agent_from_spec
from hmz_mp_worker.chat import Service
from tests.real_agents.tiny_model import missing, tiny_model
from tests.workers.chat.servers import SERVICES

pytestmark = [
    pytest.mark.agents,
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
]

LANDS = ["France", "Spain", "Italy", "Japan", "Egypt", "Peru", "Kenya", "India", "Cuba", "Iran"]


class Legs(msgspec.Struct):
    legs: int


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if package := missing():
        pytest.skip(f"{package} is not installed (make agents does that, where it can be had)")
    with tiny_model() as address:
        yield address


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        yield pool


Make = Callable[..., Agent]


@pytest.fixture
def make(address: str) -> Make:
    def make(service: Service, **settings: object) -> Agent:
        place = {"openai": f"{address}/v1", "anthropic": address}[service]
        given = {"base_url": place, "max_tokens": 60, "temperature": 0, **settings}
        words = "".join(f",{key}={value}" for key, value in given.items())
        return agent_from_spec(f"cli={service},model=smollm2{words}")

    return make


@pytest.mark.parametrize("service", SERVICES)
async def test_a_batch_of_ten(pool: Pool, make: Make, service: Service) -> None:
    agent = make(service)
    answers = await agent.abatch([f"What is the capital of {land}?" for land in LANDS])
    assert len(answers) == 10
    assert all(answer.strip() for answer in answers)
    assert agent.spent.input_tokens > 100
    assert 10 <= agent.spent.output_tokens <= 600


@pytest.mark.parametrize("service", SERVICES)
async def test_a_conversation_that_is_streamed(pool: Pool, make: Make, service: Service) -> None:
    agent = make(service)
    session = agent.new()
    assert await session.aturn("What is the capital of France?")
    before = agent.spent.input_tokens
    answer = "".join([piece async for piece in session.stream("And of Spain?")])
    assert answer.strip()
    assert agent.spent.input_tokens > 2 * before  # it read all of it


async def test_an_answer_of_a_type(pool: Pool, make: Make) -> None:
    answer = await make("openai").aturn("How many legs has a dog?", schema=Legs)
    assert isinstance(answer, Legs)


@pytest.mark.parametrize("service", SERVICES)
async def test_what_does_not_fit(pool: Pool, make: Make, service: Service) -> None:
    with pytest.raises(Unrecoverable):
        await make(service).aturn("word " * 9000)
