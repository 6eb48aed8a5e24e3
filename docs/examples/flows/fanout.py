"""One agent, one turn per file, all of them going at once. Written for hmz, and runs as it is."""

from pathlib import Path

from hmz.agents import AgentBase
from hmz.flows import flow


@flow
async def run(agents: tuple[AgentBase], task: str) -> None:
    """Ask about every Python file of the shop."""
    (agent,) = agents
    paths = sorted(str(path) for path in Path("shop").rglob("*.py"))
    said = await agent.abatch([f"{task}\n\nThe file is {path}." for path in paths], at_once=8)
    print(f"{len(said)} files, {sum(1 for answer in said if answer)} answered")
