"""The Dispatcher in loops over the real SDKs, against scripted services."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hmz_mp import Pool, tool
from hmz_mp.dispatch import Dispatcher, batch_tool
from tests.dispatch.functions import weather
from tests.dispatch.loops import LOOPS
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import ModelServer, serving
from tests.tools.width import Width, wide

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("loop", LOOPS)]
TWELVE = [f"svc-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def pool(anyio_backend: str) -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool


@tool
async def check(service: str, port: str) -> str:
    """Check one service."""
    return f"{service}: {await wide.function(port)}"


@contextmanager
def service(loop: str, *steps: dict[str, Any]) -> Iterator[ModelServer]:
    """A model that takes these steps, whatever it is asked."""
    pytest.importorskip("anthropic" if loop == "messages" else "openai")
    handler = Anthropic if loop == "messages" else OpenAI
    with serving(handler, {"default": {"steps": list(steps)}}) as server:
        yield server


def twelve(port: str) -> dict[str, Any]:
    return {"calls": [{"tool": "check", "input": {"service": s, "port": port}} for s in TWELVE]}


def results_in(body: dict[str, Any]) -> list[str]:
    """Return the texts of the results in a request, in order."""
    found = []
    for one in body.get("messages") or body["input"]:
        if one.get("role") == "tool":
            found.append(one["content"])
        elif one.get("type") == "function_call_output":
            found.append(one["output"])
        elif isinstance(one.get("content"), list):
            found += [b["content"] for b in one["content"] if b.get("type") == "tool_result"]
    return found


@pytest.mark.parametrize("cap", [12, pytest.param(4, marks=pytest.mark.slow)])
async def test_twelve_checks_are_one_model_turn_as_wide_as_the_cap(
    pool: Pool, loop: str, cap: int
) -> None:
    async with Width.measured(hold=0.1) as width:
        with service(loop, twelve(width.url), {"text": "All are up."}) as server:
            said = await LOOPS[loop](server, Dispatcher([check], at_once=cap), "check all twelve")
    assert said == "All are up."
    assert (width.most, width.asked) == (cap, 12)
    assert len(server.requests) == 2
    results = results_in(server.requests[-1]["body"])
    assert results == [f"{one}: served" for one in TWELVE]


@pytest.mark.slow
async def test_twelve_checks_take_as_long_as_the_slowest(pool: Pool, loop: str) -> None:
    async with Width.measured(hold=2.0) as width:
        with service(loop, twelve(width.url), {"text": "All are up."}) as server:
            dispatcher = Dispatcher([check], at_once=12)
            await LOOPS[loop](server, Dispatcher([weather]), "warm up")  # imports the SDK
            await check.aturn("warm", width.url)
            began = time.monotonic()
            await LOOPS[loop](server, dispatcher, "check all twelve")
            took = time.monotonic() - began
    assert width.most == 12
    assert took <= 1.15 * width.longest


async def test_calls_that_go_wrong_are_told_the_model(pool: Pool, loop: str) -> None:
    calls = [
        {"tool": "weather", "input": {"city": "Bonn"}},
        {"tool": "weather", "input": {"city": "Nowhere"}},
        {"tool": "weather", "input": {"town": "Bonn"}},
        {"tool": "wether", "input": {}},
    ]
    with service(loop, {"calls": calls, "text": "I look."}, {"text": "Warm."}) as server:
        assert await LOOPS[loop](server, Dispatcher([weather]), "how warm?") == "Warm."
    first, *errors = results_in(server.requests[-1]["body"])
    assert json.loads(first) == {"city": "Bonn", "degrees": 21}
    said = [json.loads(one)["error"] for one in errors]
    assert said[0] == "LookupError: no Nowhere"
    assert "do not fit" in said[1]
    assert "there is no tool 'wether'" in said[2]


async def test_a_list_tool_by_one_call(pool: Pool, loop: str) -> None:
    items = [{"city": "Bonn"}, {"city": "Nowhere"}]
    call = {"tool": "weather_batch", "input": {"items": items}}
    with service(loop, {"calls": [call]}, {"text": "Warm."}) as server:
        await LOOPS[loop](server, Dispatcher([batch_tool(weather)]), "how warm?")
    (result,) = results_in(server.requests[-1]["body"])
    assert [one["status"] for one in json.loads(result)] == ["ok", "failed"]


async def test_cancelling_the_loop_ends_its_calls(pool: Pool, loop: str) -> None:
    async with Width.measured(hold=60) as width:
        with service(loop, twelve(width.url)) as server:
            asked = asyncio.ensure_future(LOOPS[loop](server, Dispatcher([check], at_once=0), "go"))
            await width.reached(12)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        await width.reached(0)
