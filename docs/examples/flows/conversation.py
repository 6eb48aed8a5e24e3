"""A conversation with one agent: a question, then an answer of a type, then what it cost."""

import msgspec

from hmz_mp.flows import Agent, flow


class Size(msgspec.Struct):
    """What the agent has to answer with."""

    files: int


@flow
async def run(agents: tuple[Agent], task: str) -> None:
    """Ask, and go on asking."""
    (agent,) = agents
    session = agent.new()
    print(await session.aturn(task))
    print(await session.aturn("How many files is that?", schema=Size))
    print(agent.spent)
