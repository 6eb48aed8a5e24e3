"""Agent loops as users write them, over the official SDKs, with a `Dispatcher` in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hmz_mp.dispatch import Dispatcher
from tests.model_servers.serving import ModelServer

__all__ = ["LOOPS", "Loop"]

Loop = Callable[[ModelServer, Dispatcher, str], Awaitable[str]]


async def completions(server: ModelServer, dispatcher: Dispatcher, prompt: str) -> str:
    """OpenAI's chat completions."""
    from openai import AsyncOpenAI

    messages: Any = [{"role": "user", "content": prompt}]
    tools: Any = dispatcher.schemas("openai")
    async with AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
        while True:
            reply = await client.chat.completions.create(
                model="tiny", messages=messages, tools=tools
            )
            message = reply.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages += [message, *await dispatcher.run(message.tool_calls)]


async def responses(server: ModelServer, dispatcher: Dispatcher, prompt: str) -> str:
    """OpenAI's responses."""
    from openai import AsyncOpenAI

    items: Any = [{"role": "user", "content": prompt}]
    tools: Any = dispatcher.schemas("openai-responses")
    async with AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1", max_retries=0) as client:
        while True:
            reply = await client.responses.create(model="tiny", input=items, tools=tools)
            results = await dispatcher.run(reply.output)
            if not results:
                return reply.output_text
            items += [*(one.to_dict() for one in reply.output), *results]


async def messages(server: ModelServer, dispatcher: Dispatcher, prompt: str) -> str:
    """Anthropic's messages."""
    from anthropic import AsyncAnthropic

    said: Any = [{"role": "user", "content": prompt}]
    tools: Any = dispatcher.schemas("anthropic")
    async with AsyncAnthropic(api_key="none", base_url=server.url, max_retries=0) as client:
        while True:
            reply = await client.messages.create(
                model="tiny", max_tokens=1000, messages=said, tools=tools
            )
            results = await dispatcher.run(reply.content)
            if not results:
                return "".join(one.text for one in reply.content if one.type == "text")
            said += [
                {"role": "assistant", "content": reply.content},
                {"role": "user", "content": results},
            ]


LOOPS: dict[str, Loop] = {
    "completions": completions,
    "responses": responses,
    "messages": messages,
}
