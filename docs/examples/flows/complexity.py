"""Every Python file outlined by a tool agent, in workers; then the most complex functions."""

from hmz_mp.agents import Prompt
from hmz_mp.core.ambient import current_run
from hmz_mp.flows import Agent, flow
from hmz_mp.toolbox.python import Outline


@flow
async def run(agents: tuple[Agent], task: str) -> None:
    (agent,) = agents
    this_run = current_run()
    items = this_run.items() if this_run is not None else []
    prompts = (Prompt(task, item_id=item.item_id, path=item.path) for item in items)
    found = []
    async for outline in agent.amap(prompts, schema=Outline, suppress=True):
        if outline is not None:  # a failure is in the summary
            found += [(one.complexity, outline.path, one) for one in outline.functions]
    found.sort(key=lambda entry: (-entry[0], entry[1], entry[2].line))
    print(f"{len(found)} functions in {len(items)} files; the most complex:")
    for complexity, path, function in found[:10]:
        print(f"  {complexity:>4}  {path}:{function.line}  {function.name}")
