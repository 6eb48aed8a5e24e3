"""``python -m bench.fanin``: twelve checks one after the other, together, as a list, as sub-runs.

The model is scripted, so that each way gets the same checks done; the SDK, the tools and the pool
are the real ones. Tokens read are the bytes of a request divided by four, as a service would count
about; those written the same of what the model says. Needs the extra ``openai``, and a checkout.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import Any, NamedTuple

from openai import AsyncOpenAI

from bench.fanin.tools import CHECK_SECONDS, check, checks
from hmz_mp import Pool
from hmz_mp.dispatch import Dispatcher
from hmz_mp.fanin import fan_out, run_subtask
from hmz_mp_worker import chat
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import ModelServer, serving

SERVICES = [f"svc-{number:02}" for number in range(12)]
TURN_SECONDS = 0.3  # what the model takes for a turn
CONSTRAINTS = "You look after the services of a shop. " + "Change nothing, restart nothing. " * 60
DONE = "All twelve services answer, and their logs show no errors."


class Cost(NamedTuple):
    """What one way has cost."""

    way: str
    turns: int
    read: int
    written: int
    seconds: float


def said(**step: Any) -> dict[str, Any]:
    """A step of the model's, with what it costs to say."""
    return {**step, "delay_s": TURN_SECONDS, "usage": {"output": len(json.dumps(step)) // 4}}


def one(service: str) -> dict[str, Any]:
    return {"tool": "check", "input": {"service": service}}


def found(service: str) -> dict[str, Any]:
    finding = {
        "item_id": service,
        "status": "ok",
        "finding": "It answers, and its log shows no errors.",
        "evidence_ref": "check",
        "confidence": "high",
    }
    return said(text=json.dumps(finding))


SCRIPT = {
    "rules": [
        {
            "match": "one after the other",
            "steps": [*(said(calls=[one(service)]) for service in SERVICES), said(text=DONE)],
        },
        {"match": "together", "steps": [said(calls=list(map(one, SERVICES))), said(text=DONE)]},
        {
            "match": "as a list",
            "steps": [
                said(calls=[{"tool": "check_batch", "input": {"items": SERVICES}}]),
                said(text=DONE),
            ],
        },
        *(
            {"match": f"^{service}$", "steps": [said(calls=[one(service)]), found(service)]}
            for service in SERVICES
        ),
    ]
}


async def conversation(server: ModelServer, dispatcher: Dispatcher, how: str) -> Cost:
    """One agent is asked for all of it."""
    messages: Any = [
        {"role": "system", "content": CONSTRAINTS},
        {"role": "user", "content": f"Check these services, {how}: {', '.join(SERVICES)}."},
    ]
    tools: Any = dispatcher.schemas("openai")
    turns = read = written = 0
    async with AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1") as client:
        began = time.monotonic()
        while True:
            reply = await client.chat.completions.create(
                model="tiny", messages=messages, tools=tools
            )
            turns += 1
            assert reply.usage is not None
            read += reply.usage.prompt_tokens
            written += reply.usage.completion_tokens
            message = reply.choices[0].message
            if not message.tool_calls:
                return Cost(how, turns, read, written, time.monotonic() - began)
            messages += [message, *await dispatcher.run(message.tool_calls)]


async def sub_runs(server: ModelServer) -> Cost:
    """Each service has a conversation of its own."""
    settings = chat.Settings("openai", "tiny", base_url=f"{server.url}/v1")
    work = partial(run_subtask, model=settings, tools=[check], constraints=CONSTRAINTS)
    began = time.monotonic()
    report = await fan_out(SERVICES, work, on_failure="fail")
    seconds = time.monotonic() - began
    turns = sum(report.outcome(one.item_id).used.turns for one in report)
    read, written = int(report.total("input_tokens")), int(report.total("output_tokens"))
    return Cost("sub-runs", turns, read, written, seconds)


async def measured() -> list[Cost]:
    """Return what each way costs."""
    with serving(OpenAI, SCRIPT) as server:
        async with Pool(2):
            await sub_runs(server)  # workers are started, and the SDK is loaded
            return [
                await conversation(server, Dispatcher([check]), "one after the other"),
                await conversation(server, Dispatcher([check], at_once=12), "together"),
                await conversation(server, Dispatcher([checks], at_once=12), "as a list"),
                await sub_runs(server),
            ]


def table(costs: list[Cost]) -> str:
    """Return them as a table of Markdown."""
    first = costs[0]
    lines = ["| | model turns | tokens read | tokens written | seconds |", "|---|---|---|---|---|"]
    for cost in costs:
        share = f" ({cost.read / first.read:.0%})" if cost is not first else ""
        lines.append(
            f"| {cost.way} | {cost.turns} | {cost.read:,}{share} | {cost.written:,} "
            f"| {cost.seconds:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"A model turn takes {TURN_SECONDS} s, a check {CHECK_SECONDS} s.\n")
    print(table(asyncio.run(measured())))
