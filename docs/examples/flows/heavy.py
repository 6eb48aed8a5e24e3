"""A plain function that computes beside its agent: calls of its own go to the same workers."""

import ast
from pathlib import Path

import anyio.from_thread

import hmz_mp
from hmz_mp.flows import Agent, flow


def functions(path: str) -> int:
    """Count the functions of a file. Runs in a worker; it needs no guard and no import path."""
    tree = ast.parse(Path(path).read_text())
    return sum(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


async def count_all(paths: list[str]) -> list[int]:
    """Count in every file, in order, on the pool of the run."""
    pool = hmz_mp.current_pool()
    assert pool is not None
    return [count async for count in pool.map(functions, paths)]


@flow
def run(agents: tuple[Agent], task: str) -> None:
    """Count first, then have the agent say it: blocking calls are fine in a plain function."""
    (agent,) = agents
    paths = sorted(str(path) for path in Path("shop").glob("*.py"))
    counts = anyio.from_thread.run(count_all, paths)
    lines = [f"{path}: {count} functions" for path, count in zip(paths, counts, strict=True)]
    for answer in agent.batch(lines):
        print(answer)
