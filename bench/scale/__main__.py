"""How the coordinator scales: ``python -m bench.scale [simulation|scenes|room ...]``.

*simulation* is ten sorts of turns on as many simulated workers as ``--workers`` says, in virtual
time, with failures, and the promises checked; *scenes* are single operations beside much else;
*room* is what a real pool takes for turns and workers. All are measured when none is named. Times
are of this process's CPU: what other programs do counts little.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from collections.abc import Sequence

from bench.scale import room, scenes
from bench.scale.world import World

PARTS = ("simulation", "scenes", "room")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--workers", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=scenes.STEPS, help="of a scene")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(PARTS)}")
    print(f"CPython {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    parts = given.parts or PARTS
    if "simulation" in parts:
        for number in given.workers:
            simulate(number, given.turns, given.seed)
    if "scenes" in parts:
        show_scenes(given.workers, given.steps)
    if "room" in parts:
        show_room(given.turns)


def simulate(workers: int, turns: int, seed: int) -> None:
    """Run one simulation and print its figures."""
    began = time.thread_time()
    world = World(workers, turns, window=10 * workers, at_once=2 * workers, seed=seed)
    gc.collect()
    gc.disable()  # it would look at the simulation's own objects
    try:
        world.run()
    finally:
        gc.enable()
    all_cpu = time.thread_time() - began
    each = world.cpu / turns / 1e3
    print(f"\n{workers:,} workers, {turns:,} turns, each ended once; no gate was ever too wide")
    print(f"  policy: {each:.1f} µs a turn, {1e6 / each:,.0f} turns/s")
    print(f"  {world.events / turns:.2f} events a turn, {world.events / world.steps:.1f} a step")
    print(f"  its longest step: {world.dearest / 1e6:.1f} ms")
    print(f"  in flight at most {world.policy.widest:,}; {world.now:,.0f} virtual seconds")
    print(f"  {all_cpu:.0f} s of CPU with the simulation")
    print(f"  turns: {_counts(world.endings)}; {world.policy.counts['retried']:,} tries again")
    print(f"  meanwhile: {_counts(world.faults)}")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def show_scenes(sizes: Sequence[int], steps: int) -> None:
    """Print what a step of each scene takes, at each size."""
    print("\n| µs of CPU a step | " + " | ".join(f"n = {size:,}" for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for scene in scenes.SCENES:
        costs = [scenes.measure(scene, size, steps) * 1e6 for size in sizes]
        name = scene.__name__.replace("_", " ")
        print(f"| {name} | " + " | ".join(f"{cost:.1f}" for cost in costs) + " |")


def show_room(turns: int) -> None:
    """Print what turns and workers of a real pool take beside time."""
    if sys.platform != "linux":
        print("\nwhat turns and workers take is measured on Linux only")
        return
    count = min(turns, 200_000)
    print(f"\na job queued in the policy: {room.of_a_queued_job(count):.0f} bytes")
    print(f"a turn queued in a pool: {room.of_a_queued_turn(count):.0f} bytes")
    one = room.of_a_worker(2, 10)
    print(
        f"a worker: {one.descriptors:.1f} descriptors and {one.threads:.1f} threads of the caller, "
        f"{one.zygote_descriptors:.1f} descriptors of the zygote, {one.memory / 1e3:.0f} kB"
    )


if __name__ == "__main__":
    main()
