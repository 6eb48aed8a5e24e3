"""Two agents by name, settings from a file, and items of the command line."""

from dataclasses import dataclass
from typing import NamedTuple

from hmz_mp.agents import Prompt
from hmz_mp.core.ambient import current_run
from hmz_mp.flows import Agent, flow


class Agents(NamedTuple):
    """The first -a writes, the second reviews."""

    writer: Agent
    reviewer: Agent


@dataclass
class Settings:
    """What the file of -c holds."""

    longest: int = 10  # lines a file may have without being reviewed


@flow
async def run(agents: Agents, task: str, config: Settings) -> None:
    """Have every file measured, and the long ones reviewed."""
    this_run = current_run()
    assert this_run is not None
    files = this_run.items()
    lines = await agents.writer.abatch(
        [Prompt(task, item_id=file.item_id, path=file.path) for file in files]
    )
    long = [
        Prompt(f"{file.item_id} has {count.split()[0]} lines", item_id=file.item_id)
        for file, count in zip(files, lines, strict=True)
        if int(count.split()[0]) > config.longest
    ]
    for review in await agents.reviewer.abatch(long):
        print(review)
