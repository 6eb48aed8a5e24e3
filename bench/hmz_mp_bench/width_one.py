"""``python -m hmz_mp_bench.width_one ASKED WORKERS AT_ONCE OUT``: one run of a user's tool.

ASKED is a JSON file with the tool, as an agent is written, and the files. The tool runs as it does
under ``hmz-mp exec``, but nothing is written down.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from hmz_mp import Pool
from hmz_mp.agents import Prompt, TurnEvent, agent_from_spec
from hmz_mp_bench.width import Width

__all__ = ["measure"]


async def measure(tool: str, files: list[str], width: Width) -> dict[str, Any]:
    """Return the seconds for all files, how many failed, and why one did."""
    agent = agent_from_spec(tool)
    reasons: list[str] = []

    def note(event: TurnEvent) -> None:
        if event.kind == "ended" and event.record.state != "ok":
            reasons.append(f"{event.record.item_id}: {event.record.error}")

    prompts = [Prompt(f"The file is {path}.", path=path) for path in files]
    async with Pool(width.workers, at_once=width.at_once):
        # Workers are started and have imported the tool before the clock is.
        await agent.abatch(prompts[: width.workers], suppress=True)
        agent.watch(note)
        began = time.perf_counter()
        await agent.abatch(prompts, suppress=True)
        seconds = time.perf_counter() - began
    said = " ".join(reasons[0].split()) if reasons else ""
    figures = {"all": seconds, "failed": len(reasons)}
    return {"figures": figures, "wrong": None, "said": said}


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    at = Width(int(sys.argv[2]), int(sys.argv[3]))
    result = asyncio.run(measure(asked["tool"], asked["files"], at))
    Path(sys.argv[4]).write_text(json.dumps(result))
