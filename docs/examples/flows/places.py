"""One agent in a directory, and in two worktrees that know nothing of each other."""

import asyncio

from hmz_mp.flows import Agent, flow
from hmz_mp.worktrees import worktree


@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    shop = agent.new("shop")
    first, second = agent.new(worktree()), agent.new(worktree())
    await asyncio.gather(first.aturn("echo one >> one.txt"), second.aturn("echo two >> two.txt"))
    seen = [await session.aturn("ls") for session in (shop, first, second)]
    for at, names in zip(("shop", "first", "second"), seen, strict=True):
        print(f"{at}: {' '.join(names.split())}")
