"""Where a turn's time goes: what each step of a no-op call costs, as CPU time.

``python -m hmz_mp_bench.steps [--calls N] [--json]``. It times the steps of a real pool, a batch at
a time, on the thread of the loop; what workers take is asked of the system. docs/speed.md explains
the steps and has the last table. Knows the pool's inside, unlike everything else in this package.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

import click
import psutil

import hmz_mp
from hmz_mp.core.pool import Pool
from hmz_mp_bench.calls import no_op
from hmz_mp_worker import wire

__all__ = ["STEPS", "measure"]

# In the order in which a turn meets them.
STEPS = {
    "submit": "pickle the arguments, make the turn, queue it",
    "await": "asyncio.gather: a done callback on each turn",
    "decide": "the policy: which worker, how many ahead",
    "pack": "one message for what is shipped together",
    "send": "hand it to the kernel",
    "run": "in a worker: read, call, look for traces, pickle the answer, send it",
    "receive": "take answers from the kernel, and put frames together",
    "decode": "decode the answers",
    "settle": "the policy hears of them; values are loaded; turns end",
    "wake": "run the done callbacks",
    "loop": "asyncio's own steps, and what is left",
}


class _Clock:
    """Adds up the CPU time of nested steps, each without those inside it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = [0.0]

    def step(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call``, timed as a step."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            began = thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                taken = thread_time() - began
                self.seconds[name] += taken - self._inside.pop()
                self._inside[-1] += taken

        return timed


def _watch(pool: Pool, clock: _Clock) -> None:
    """Time the steps of a pool that is open and has its workers."""
    coordinator: Any = pool._coordinator
    coordinator._carry_out_all = clock.step("decide", coordinator._carry_out_all)
    coordinator.engine.ship = clock.step("pack", coordinator.engine.ship)
    coordinator.worker_answered = clock.step("settle", coordinator.worker_answered)
    wakeups: Any = pool._driver._wakeups  # type: ignore[union-attr]  # asyncio's driver
    wakeups._run = clock.step("wake", wakeups._run)
    for worker in coordinator.engine._workers.values():
        connection = worker.connection
        connection.send = clock.step("send", connection.send)
        receive = clock.step("receive", connection._readable)
        pool._driver.add_reader(connection._fd, receive)  # type: ignore[union-attr]  # it is open


def _workers_seconds(pool: Pool) -> float:
    times = [psutil.Process(one.pid).cpu_times() for one in pool.statistics().workers]
    return sum(one.user + one.system for one in times)


async def _measure(calls: int) -> dict[str, float]:
    decode = wire.decode_from_worker
    async with hmz_mp.Pool(2) as pool:
        await asyncio.gather(*[pool.submit(no_op, at) for at in range(2000)])
        clock = _Clock()
        _watch(pool, clock)
        wire.decode_from_worker = clock.step("decode", decode)
        before, began, wall = _workers_seconds(pool), thread_time(), perf_counter()
        turns = [pool.submit(no_op, at) for at in range(calls)]
        submitted = thread_time()
        gathered = asyncio.gather(*turns)
        awaited = thread_time()
        answers = await gathered
        ended, wall = thread_time(), perf_counter() - wall
        workers = _workers_seconds(pool) - before
        wire.decode_from_worker = decode
    if answers != list(range(calls)):
        raise RuntimeError("the answers are wrong")
    seconds = dict(clock.seconds)
    inner = sum(seconds.values())
    seconds |= {
        "submit": submitted - began,
        "await": awaited - submitted,
        "run": workers,
        "loop": max(0.0, ended - awaited - inner),
    }
    taken = {step: seconds.get(step, 0.0) / calls for step in STEPS}
    return {**taken, "coordinator": (ended - began) / calls, "elapsed": wall / calls}


def measure(calls: int, runs: int = 5) -> dict[str, float]:
    """Return the seconds of each step of one call, of the run that took the least of several.

    ``coordinator`` is the CPU time of the loop's thread, ``elapsed`` the time that passed.
    """
    return min((asyncio.run(_measure(calls)) for _ in range(runs)), key=lambda one: one["elapsed"])


@click.command()
@click.option("--calls", default=20_000, show_default=True, type=click.IntRange(100))
@click.option("--runs", default=5, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="Print seconds, as JSON.")
def main(calls: int, runs: int, as_json: bool) -> None:
    """Print what each step of a no-op call costs."""
    taken = measure(calls, runs)
    if as_json:
        click.echo(json.dumps(taken))
        return
    for step, words in STEPS.items():
        click.echo(f"{step:<8} {taken[step] * 1e6:6.2f} µs  {words}")
    click.echo(
        f"together {taken['coordinator'] * 1e6:.2f} µs in the coordinator and "
        f"{taken['run'] * 1e6:.2f} in workers; a call every {taken['elapsed'] * 1e6:.2f} µs"
    )


if __name__ == "__main__":
    sys.exit(main())
