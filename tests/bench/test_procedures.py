"""Each procedure at a tiny size, on our own contenders; and each way to see a wrong answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from hmz_mp_bench.contenders.base import Function
from hmz_mp_bench.contenders.standard import Serial
from hmz_mp_bench.one import measure
from hmz_mp_bench.runner import run_fresh
from hmz_mp_bench.workloads import WORKLOADS

pytestmark = pytest.mark.slow  # each starts the processes of one or two executors

OURS = "hmz_mp_bench.contenders.ours"
COUNTS = {
    "gathered": 200, "window": 1500, "one-by-one": 20, "mebibyte": 2, "map": 500, "memory": 20,
    "killed": 2, "parse": 4, "ticker": 2, "mixed": 10, "sessions": 20, "opened": 1000,
}  # fmt: skip
LINUX = {"memory"}


def figures_of(contender: str, workload: str, count: int) -> dict[str, float]:
    result = measure(contender, WORKLOADS[workload].procedure, count, 2)
    assert result.get("raised") is None
    assert result["wrong"] is None
    figures: dict[str, float] = result["figures"]
    return figures


@pytest.mark.parametrize("workload", COUNTS)
def test_our_pool_takes_every_workload(workload: str) -> None:
    if workload in LINUX and sys.platform != "linux":
        pytest.skip("there is no such figure here")
    figures = figures_of(f"{OURS}:OurPool", workload, COUNTS[workload])
    described = WORKLOADS[workload]
    assert {described.figure, *described.extra} <= set(figures)
    assert figures[described.figure] > 0


@pytest.mark.parametrize("workload", ["gathered", "window", "mixed", "sessions"])
def test_so_it_does_on_trio(workload: str) -> None:
    assert figures_of(f"{OURS}:OurPoolOnTrio", workload, COUNTS[workload])["all"] > 0


@pytest.mark.parametrize("contender", ["Exec", "BareMap"])
def test_commands_over_small_files(contender: str) -> None:
    name = f"hmz_mp_bench.contenders.commands:{contender}"
    assert figures_of(name, "exec", 12)["calls"] == 12


@pytest.mark.parametrize("contender", ["standard:MultiprocessingPool", "pipe:BarePipe"])
@pytest.mark.parametrize("workload", ["gathered", "one-by-one"])
def test_what_is_always_there(contender: str, workload: str) -> None:
    # In a process of its own, as it forks, which the one of the tests, with its threads, must not.
    name = f"hmz_mp_bench.contenders.{contender}"
    measured = run_fresh(name, WORKLOADS[workload].procedure, 20, 2, 30.0)
    assert measured.problem is None
    assert measured.figures["calls"] == 20


# Wrong answers.


class OffByOne(Serial):
    """Right while it warms up."""

    def submit(self, function: Function, item: Any) -> Any:
        async def call() -> Any:
            return item[:-1] if isinstance(item, bytes) else item + 1

        return call()

    def mapped(self, function: Function, items: Iterable[Any]) -> Iterator[Any]:
        return iter([*map(function, items)][::-1])


class Forgetful(Serial):
    """Answers with what it was asked to compute on."""

    async def gathered(self, function: Function, items: Any) -> list[Any]:
        return [3 for _ in items] if isinstance(items[0], str) else list(items)

    async def session_turns(self, count: int) -> list[str]:
        return ["0"] * count

    def open_sessions(self, count: int) -> list[object]:
        return [None] * (count - 1)


@pytest.mark.parametrize(
    ("contender", "workload", "wrong"),
    [
        ("OffByOne", "one-by-one", "answers are not the items, in order"),
        ("OffByOne", "window", "an answer is not its item"),
        ("OffByOne", "map", "the answer after 0 is not the next item"),
        ("OffByOne", "mebibyte", "other bytes came back"),
        ("Forgetful", "parse", "a file has another number of nodes"),
        ("Forgetful", "sessions", "the warm-up"),
        ("Forgetful", "opened", "999 sessions were opened"),
    ],
)
def test_a_wrong_answer_is_seen(contender: str, workload: str, wrong: str) -> None:
    name = f"{__name__}:{contender}"
    result = measure(name, WORKLOADS[workload].procedure, COUNTS[workload], 2)
    assert result == {"wrong": wrong}
