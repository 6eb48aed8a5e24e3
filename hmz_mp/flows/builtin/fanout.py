"""One agent, one turn per selected item, all of them going at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hmz_mp.agents import Prompt
from hmz_mp.core.ambient import current_run
from hmz_mp.errors import BadInput
from hmz_mp.flows import Agent, flow

if TYPE_CHECKING:
    from hmz_mp.core.ambient import Item


@flow(name="fanout")
async def run(agents: tuple[Agent], task: str) -> None:
    """Ask the agent once about every item of the run; failures are in the run's records."""
    (agent,) = agents
    this_run = current_run()
    if this_run is None:
        raise BadInput("fanout works on the items of a run: start it with hmz-mp exec")
    items = this_run.items()
    prompts = (prompt_for(item, task) for item in items)
    answered = 0
    async for answer in agent.amap(prompts, suppress=True):
        answered += bool(answer)
    what = "file" if all(item.path is not None for item in items) else "item"
    plural = "" if len(items) == 1 else "s"
    print(f"{len(items)} {what}{plural}, {answered} answered with text")


def prompt_for(item: Item, task: str) -> Prompt:
    """Return what the agent is asked about one item: the task, then the file or the record."""
    about = f"The file is {item.item_id}." if item.text is None else item.text
    text = f"{task}\n\n{about}" if task else about
    return Prompt(text, item_id=item.item_id, path=item.path)
