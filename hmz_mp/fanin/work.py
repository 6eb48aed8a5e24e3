"""What `fan_out` may be given as work, each as one awaitable call for an item.

A tool runs in workers, an agent takes a turn, a function runs in this process: ``async def`` on
the loop, ``def`` in a thread. Imported by ``fanin``.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from hmz_mp.agents import Agent, Prompt
from hmz_mp.core.ambient import Item, current_run
from hmz_mp.dispatch.rendering import text_of
from hmz_mp.fanin.finding import Finding
from hmz_mp.tools import Tool
from hmz_mp.tools.batching import BatchTool

__all__ = ["Ask", "Work", "ask", "called_for", "evidence_of", "prompt_for", "shown_by"]

Call = Callable[[Any, str], Awaitable[Any]]
Template = str | Callable[[Any], str]
_THREADS = 40  # at once where nothing else bounds them, as anyio has it
_PLACE = re.compile(r"\{(\w+)\}")


class Ask(msgspec.Struct, frozen=True):
    """An agent with a prompt for each item. Made by `ask`."""

    agent: Agent
    template: Template
    schema: Any = Finding
    cwd: Any = None


Work = Callable[[Any], Any] | Tool[..., Any] | Agent | Ask


def ask(agent: Agent, template: Template, *, schema: Any = Finding, cwd: Any = None) -> Ask:
    """Return work for `fan_out`: one turn of an agent for each item.

    In the template ``{item_id}``, ``{path}``, ``{item}`` and, for items that are dicts or
    Structs, the names of their fields are replaced; other braces stay. An item that none of them
    names is put below the template. It may be a function that returns the prompt of an item.
    ``schema`` is the type of the answer, by default a `Finding`;
    ``None`` takes the text. ``cwd`` is as for ``agent.aturn``.
    """
    return Ask(agent, template, schema, cwd)


def called_for(work: Work, at_once: int) -> Call:
    """Return what is awaited for each item. Raises `TypeError` for what is no work."""
    if isinstance(work, Ask):
        return functools.partial(_asked, work)
    if isinstance(work, Agent):
        return functools.partial(_asked, Ask(work, "", None))
    if isinstance(work, Tool):
        return functools.partial(_tooled, work.one if isinstance(work, BatchTool) else work)
    if isinstance(work, functools.partial) and isinstance(work.func, Tool):
        bound = functools.partial(work.func.aturn, *work.args, **work.keywords)
        return functools.partial(_awaited, bound)
    if not callable(work):
        raise TypeError(
            f"work is a function, a @tool, an agent or ask(agent, template), not a "
            f"{type(work).__name__}"
        )
    if _is_async(work):
        return functools.partial(_awaited, work)
    threads = anyio.CapacityLimiter(at_once or _THREADS)
    return functools.partial(_threaded, work, threads)


def _is_async(work: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(
        getattr(work, "__call__", None)  # noqa: B004  # not whether it has one: whether it is async
    )


async def _tooled(tool: Tool[..., Any], item: Any, item_id: str) -> Any:  # noqa: ARG001
    if tool.takes_batch:
        (answer,) = await tool.abatch([item])
        return answer
    return await tool.aturn(item)


async def _awaited(function: Callable[[Any], Awaitable[Any]], item: Any, item_id: str) -> Any:  # noqa: ARG001
    return await function(item)


async def _threaded(
    function: Callable[[Any], Any],
    threads: anyio.CapacityLimiter,
    item: Any,
    item_id: str,  # noqa: ARG001
) -> Any:
    # In a tuple: trio takes a coroutine that comes out of a thread for a mistake.
    (value,) = await anyio.to_thread.run_sync(lambda: (function(item),), limiter=threads)
    return await value if inspect.isawaitable(value) else value


async def _asked(asked: Ask, item: Any, item_id: str) -> Any:
    prompt = prompt_for(asked.template, item, item_id)
    return await asked.agent.aturn(prompt, schema=asked.schema, cwd=asked.cwd)


def prompt_for(template: Template, item: Any, item_id: str) -> Prompt:
    """Return what an agent is asked about one item."""
    if isinstance(item, Prompt) and not template:
        return msgspec.structs.replace(item, item_id=item_id)
    path = _path(item)
    if callable(template):
        return Prompt(template(item), item_id=item_id, path=path)
    text, filled = _filled(template, item, item_id, path)
    if not filled:
        about = _about(item, item_id, path)
        text = f"{template}\n\n{about}" if template else about
    return Prompt(text, item_id=item_id, path=path)


def _path(item: Any) -> bytes | None:
    if isinstance(item, (Item, Prompt)):
        return item.path  # type: ignore[return-value]  # a prompt keeps it as bytes
    return os.fsencode(item) if isinstance(item, (bytes, os.PathLike)) else None


def _filled(template: str, item: Any, item_id: str, path: bytes | None) -> tuple[str, bool]:
    """Return a template with what it says of the item, and whether it says anything."""
    values = _fields(item)
    values |= {"item_id": item_id, "path": os.fsdecode(path) if path else item_id}
    values.setdefault("item", item_id if path or isinstance(item, str) else item)
    filled = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal filled
        if match[1] not in values:
            return match[0]
        filled = True
        return text_of(values[match[1]])

    return _PLACE.sub(replaced, template), filled


def _fields(item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return {str(key): value for key, value in item.items()}
    return msgspec.structs.asdict(item) if isinstance(item, msgspec.Struct) else {}


def _about(item: Any, item_id: str, path: bytes | None) -> str:
    text = (
        item.text if isinstance(item, (Item, Prompt)) else item if isinstance(item, str) else None
    )
    if text is not None:
        return text
    return f"The file is {item_id}." if path is not None else f"{item_id}: {text_of(item)}"


def evidence_of(work: Work, item_id: str) -> str:
    """Return where the whole answer about an item is, if it is written down anywhere."""
    return shown_by(item_id) if isinstance(work, (Agent, Ask)) else ""


def shown_by(item_id: str) -> str:
    """Return the command that shows an item's turns of the run around, or nothing outside one."""
    run = current_run()
    return "" if run is None else f"hmz-mp show {run.id} {shlex.quote(item_id)}"
