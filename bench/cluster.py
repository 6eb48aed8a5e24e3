"""What calls on a Dask cluster cost: ``python -m bench.cluster [--calls N] [--rounds N]``.

Two Dask workers of one thread in processes of their own, on this machine. Large arguments: the same
one in every call, and another one in every call, each with sites that keep large pieces and with
sites that keep none, in turns; what went over the connections to Dask workers is counted where Dask
writes it. Calls of nothing: ours and those of Dask's own ``client.map``, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from distributed import Client, LocalCluster
from distributed.comm.tcp import TCP

from hmz_mp import Pool
from hmz_mp.engines.dask import kept

MIB = 1 << 20
LARGE = 20 * 10**6
NOTHING = (10_000, 500)  # calls of nothing, ours and Dask's


class Took(NamedTuple):
    """Seconds by the clock and of this process's processor, and bytes that Dask's comms wrote."""

    wall: float
    cpu: float
    written: int


def nothing(at: int) -> int:
    return at


def first_and_length(value: Any) -> tuple[int, int]:
    return int(value[0]), len(value)


class Counter:
    """Counts what this process writes to Dask's comms."""

    def __init__(self) -> None:
        self.written = 0
        self._write = TCP.write
        TCP.write = self._counted(self._write)

    def _counted(self, write: Callable[..., Awaitable[int]]) -> Callable[..., Awaitable[int]]:
        async def counted(*args: Any, **options: Any) -> int:
            count = await write(*args, **options)
            self.written += count
            return count

        return counted


async def shipped(address: str, counter: Counter, values: Sequence[Any], room: int) -> Took:
    """Call a function with each of some values, through a pool whose sites keep so much."""
    usual, kept.ROOM = kept.ROOM, room
    try:
        async with Pool(engine=f"dask://{address}") as pool:
            await asyncio.gather(*(pool.submit(nothing, at) for at in range(100)))
            before, began, used = counter.written, time.perf_counter(), time.process_time()
            turns = [pool.submit(first_and_length, value) for value in values]
            answers = await asyncio.gather(*turns)
            took = Took(
                time.perf_counter() - began, time.process_time() - used, counter.written - before
            )
    finally:
        kept.ROOM = usual
    assert answers == [(value[0], len(value)) for value in values]
    return took


async def nothings(address: str, rounds: int) -> None:
    ours, theirs = [], []
    async with (
        Client(address, asynchronous=True) as client,
        Pool(engine=f"dask://{address}") as pool,
    ):

        async def submitted(count: int) -> float:
            began = time.perf_counter()
            turns = [pool.submit(nothing, at) for at in range(count)]
            assert await asyncio.gather(*turns) == list(range(count))
            return count / (time.perf_counter() - began)

        async def mapped(count: int) -> float:
            began = time.perf_counter()
            futures = client.map(nothing, range(count), pure=False)
            assert await client.gather(futures) == list(range(count))
            return count / (time.perf_counter() - began)

        await submitted(1000), await mapped(100)
        for _ in range(rounds):
            ours.append(await submitted(NOTHING[0]))
            theirs.append(await mapped(NOTHING[1]))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"nothing: ours {median(ours)} calls/s, client.map {median(theirs)}: {ratio:.0f} x")


def median(figures: Sequence[float]) -> str:
    return f"{statistics.median(figures):,.3g} ({min(figures):,.3g} to {max(figures):,.3g})"


def say(name: str, takes: dict[str, list[Took]]) -> None:
    for way, some in takes.items():
        print(
            f"{name}, {way}: {median([one.wall for one in some])} s, "
            f"of the coordinator's processor {median([one.cpu for one in some])} s, "
            f"{statistics.median([one.written for one in some]) / 1e6:,.1f} MB sent"
        )
    once, each = (statistics.median([one.wall for one in takes[way]]) for way in takes)
    print(f"{name}: kept to not kept {once / each:.2f} of the time")


async def main(calls: int, rounds: int) -> None:
    counter = Counter()
    same = [os.urandom(LARGE)] * calls
    equal = [bytearray(same[0])] * calls
    different = [os.urandom(MIB) for _ in range(calls)]
    async with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        asynchronous=True,
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        for name, values in (
            (f"{calls} x the same 20 MB of bytes", same),
            (f"{calls} x the same 20 MB in a bytearray", equal),
            (f"{calls} x another MiB", different),
        ):
            takes: dict[str, list[Took]] = {"kept": [], "not kept": []}
            for _ in range(rounds):
                for way, some in takes.items():
                    room = kept.ROOM if way == "kept" else 0
                    some.append(await shipped(address, counter, values, room))
            say(name, takes)
        await nothings(address, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(main(given.calls, given.rounds))
