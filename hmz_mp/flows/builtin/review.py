"""One agent looks at each selected item, and what it finds is one report."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from hmz_mp.core.ambient import current_run
from hmz_mp.errors import BadInput
from hmz_mp.fanin import ask, fan_out
from hmz_mp.flows import Agent, flow

if TYPE_CHECKING:
    from hmz_mp.core.ambient import Item

LOOK = "Review it, and say what is wrong with it."
HOW = (
    "Answer with one finding. item_id: {item_id}. status: ok once you have looked at it, whatever "
    "you found; failed if you could not; needs_review if somebody has to decide. finding: one or "
    "two sentences. evidence_ref: where the evidence is, as a path and a line. confidence: high "
    "or low."
)


@flow(name="review")
async def run(agents: tuple[Agent], task: str) -> None:
    """Ask the agent for a finding about every item of the run, and print the report."""
    (agent,) = agents
    this_run = current_run()
    if this_run is None:
        raise BadInput("review works on the items of a run: start it with hmz-mp exec")
    work = ask(agent, partial(prompt_for, task))
    report = await fan_out(this_run.items(), work, on_failure="partial")
    if sys.stdout.isatty():
        report.show()
    else:
        print(report)


def prompt_for(task: str, item: Item) -> str:
    """Return what the agent is asked about one item."""
    about = f"The file is {item.item_id}." if item.text is None else item.text
    return "\n\n".join([task or LOOK, about, HOW.replace("{item_id}", item.item_id)])
