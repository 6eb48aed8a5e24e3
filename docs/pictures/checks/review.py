"""The flow of the pictures: two agents, each of them given every file, at the same time."""

import anyio

from hmz_mp.flows import Agent, calls, flow


@flow
async def run(agents: tuple[Agent, Agent], task: str) -> None:
    """Have both look at all files."""
    async with anyio.create_task_group() as both:
        for agent in agents:
            both.start_soon(calls("fanout"), (agent,), task)
