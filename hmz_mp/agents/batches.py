"""Many turns of one agent at once, a session each: all answers, or answers as they come.

A batch is bounded by the pool's own gate; what is read ahead is bounded here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import anyio

from hmz_mp.agents.prompts import each_prompt
from hmz_mp.agents.turns import AgentTurn, cancel_all, land_all
from hmz_mp.core.limits import AUTO
from hmz_mp.core.width import CEILING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from hmz_mp.agents.placing import Place
    from hmz_mp.agents.prompts import Prompt
    from hmz_mp.agents.submitter import Submitter
    from hmz_mp.core.limits import AtOnce

__all__ = ["abatch", "amap"]

WINDOW = 1024  # turns begun and not yet taken by who iterates; at least four times `at_once`
STRIDE = 64  # turns submitted before the loop gets a chance to ship some


async def abatch(
    submitter: Submitter,
    prompts: Iterable[str | Prompt],
    at_once: AtOnce,
    schema: Any,
    suppress: bool,
    cwd: Place,
) -> list[Any]:
    """Return all answers in prompt order, once every turn has ended."""
    view = submitter.view(at_once)
    turns: list[AgentTurn] = []
    try:
        for prompt in each_prompt(prompts):
            turns.append(submitter.begin(prompt, view, schema=schema, cwd=cwd))
            if len(turns) % STRIDE == 0:
                await anyio.lowlevel.checkpoint()
    except BaseException:
        await cancel_all(turns)
        raise
    await land_all(turns)
    return [turn.value(suppress=suppress) for turn in turns]


async def amap(
    submitter: Submitter,
    prompts: Iterable[str | Prompt],
    at_once: AtOnce,
    schema: Any,
    suppress: bool,
    cwd: Place,
) -> AsyncGenerator[Any, None]:
    """Yield the answers in prompt order; never more than the window is begun and not taken."""
    view = submitter.view(at_once)
    waiting = iter(each_prompt(prompts))
    window: deque[AgentTurn] = deque()
    size = max(WINDOW, 4 * (CEILING if at_once == AUTO else at_once))
    more, begun = True, 0
    try:
        while True:
            while more and len(window) < size:
                prompt = next(waiting, None)
                if prompt is None:
                    more = False
                else:
                    window.append(submitter.begin(prompt, view, schema=schema, cwd=cwd))
                    begun += 1
                    if begun % STRIDE == 0:
                        await anyio.lowlevel.checkpoint()
            if not window:
                return
            await window[0].landed()
            yield window.popleft().value(suppress=suppress)
    finally:
        await cancel_all(window)
