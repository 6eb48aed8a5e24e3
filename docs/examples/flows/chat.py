"""Ask a chat model, see its answer come, and have one of a type from the same conversation."""

import msgspec

from hmz_mp.flows import Agent, flow


class Sort(msgspec.Struct):
    """What the model has to answer with."""

    name: str
    stable: bool


@flow
async def run(agents: tuple[Agent], task: str) -> None:
    """Ask, and ask about the answer."""
    (agent,) = agents
    session = agent.new()
    async for piece in session.stream(task):
        print(piece, end="", flush=True)
    print()
    print(await session.aturn("Is that one stable?", schema=Sort))
    print(agent.spent)
