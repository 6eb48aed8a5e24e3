"""The tools that the checks are made with; they wait, as what they stand for does."""

from __future__ import annotations

import asyncio

from hmz_mp import tool
from hmz_mp.dispatch import batch_tool

CHECK_SECONDS = 0.2
LINES = 12  # of a service's log in each answer: about 200 tokens


@tool(timeout=30)
async def check(service: str) -> str:
    """Look at one service: whether it answers, and the end of its log."""
    await asyncio.sleep(CHECK_SECONDS)
    log = "\n".join(
        f"2026-01-01T00:00:{n:02} {service} GET /health 200 {n} ms" for n in range(LINES)
    )
    return f"{service} answers.\n{log}"


checks = batch_tool(check, at_once=12)
