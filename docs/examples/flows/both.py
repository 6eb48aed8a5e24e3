"""Flows of flows: several in one file, and one found by its path."""

from hmz_mp.flows import Agent, calls, flow


@flow
async def twice(agents: tuple[Agent], task: str) -> None:
    """Run another flow two times."""
    for _ in range(2):
        await calls("flows/fanout.py")(agents, task)


@flow(name="keeps-count", resumable=True)
def count(agents: tuple[Agent], task: str, state: dict[str, int]) -> None:
    """Keep a number in the state, where a later run of a resumable flow finds it."""
    state["runs"] = state.get("runs", 0) + 1
    print(f"{len(agents)} agent, run {state['runs']}")
