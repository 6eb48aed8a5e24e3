"""What goes on beside heavy calls: a ticker on the coordinator's loop, and turns that wait."""

from __future__ import annotations

import time
from typing import Any

import anyio

from hmz_mp_bench import calls
from hmz_mp_bench.contenders.base import Contender
from hmz_mp_bench.procedures import Figures, verify

__all__ = ["TICK", "WIDTH", "mixed", "ticker"]

TICK = 0.005
WIDTH = 20  # agent turns in flight
HEAVY_MS = 50.0  # a call beside the ticker
LIGHT_MS = 5.0  # a call beside the agents


def rounds_for(milliseconds: float) -> int:
    """Return how many rounds of `calls.burn` take so long on an idle CPU of this machine."""
    tried = 20_000
    quickest = min(calls.burn(tried) for _ in range(10))
    return max(1, int(tried * milliseconds / 1000 / quickest))


async def ticker(contender: Contender, count: int) -> Figures:
    """Saturate the workers; note how late a loop that wants to tick every 5 ms is."""
    rounds = rounds_for(HEAVY_MS)
    right = calls.burn_checked(rounds)[0]
    warm_up = await contender.gathered(calls.burn_checked, [1000] * 10)
    verify(len(warm_up) == 10, "the warm-up")
    delays: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await anyio.sleep(TICK)
            delays.append(time.perf_counter() - began - TICK)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        began = time.perf_counter()
        answers = await contender.gathered(calls.burn_checked, [rounds] * count)
        seconds = time.perf_counter() - began
        await anyio.sleep(2 * TICK)  # a loop that was held to the end ticks once, late
        group.cancel_scope.cancel()
    verify([value for value, _ in answers] == [right] * count, "a call computed something else")
    delays.sort()
    return {
        "p99": delays[min(len(delays) - 1, int(len(delays) * 0.99))],
        "most": delays[-1],
        "middle": delays[len(delays) // 2],
        "ticks": len(delays),
        "all": seconds,
        "calls": count,
    }


async def mixed(contender: Contender, count: int) -> Figures:
    """Have agents wait beside heavy calls: a tenth as many turns as calls."""
    turns = count // 10
    rounds = rounds_for(LIGHT_MS)
    right = calls.burn_checked(rounds)[0]
    await contender.gathered(calls.burn_checked, [1000] * 10)
    found: dict[str, list[Any]] = {}

    async def wait() -> None:
        found["agents"] = await contender.agents_wait(
            [str(number) for number in range(turns)], WIDTH
        )

    async def work() -> None:
        found["calls"] = await contender.gathered(calls.burn_checked, [rounds] * count)

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(work)
    seconds = time.perf_counter() - began
    verify(found["agents"] == [str(number) for number in range(turns)], "an agent's answer")
    verify([value for value, _ in found["calls"]] == [right] * count, "a call's answer")
    waiting = turns * calls.AGENT_SECONDS / WIDTH
    working = sum(took for _, took in found["calls"]) / contender.workers
    bound = max(waiting, working)
    return {
        "all": seconds,
        "bound": bound,
        "over": seconds / bound,
        "waiting": waiting,
        "working": working,
        "calls": count,
    }
