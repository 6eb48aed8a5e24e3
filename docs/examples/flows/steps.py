"""A flow that keeps its place: each step is a turn, and what is done is not looked at again."""

from typing import Any

from hmz_mp.flows import Agent, flow

STEPS = ("plan", "write", "check")


@flow(resumable=True)
async def run(agents: tuple[Agent], task: str, state: dict[str, Any]) -> None:
    """Ask for each step that is not done yet."""
    (agent,) = agents
    done = state.setdefault("done", [])
    for step in STEPS[len(done) :]:
        print(await agent.aturn(f"{step} {task}"))
        done.append(step)
