"""Threads that submit, cancel, fail and kill workers at random: each future ends once and right."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import Future, wait
from typing import Any

import pytest

from hmz_mp.errors import WorkerDied
from hmz_mp.futures import ProcessExecutor

BOUND = 40.0
CALLS = 250  # of each thread
KINDS = {"fast": 80, "slow": 4, "fail": 5, "die": 1, "big": 3}
FAILURES = {"fail": ValueError, "die": WorkerDied}


def work(kind: str, number: int) -> Any:
    if kind == "slow":
        time.sleep(0.02)
    elif kind == "fail":
        raise ValueError(number)
    elif kind == "die":
        os._exit(3)
    elif kind == "big":
        return number, b"x" * 300_000
    return number, b""


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_storm(seed: int) -> None:
    made: list[tuple[Future[Any], str, int]] = []
    ends: list[Future[Any]] = []

    def use(executor: ProcessExecutor, chance: random.Random) -> None:
        for number in range(CALLS):
            (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
            future = executor.submit(work, kind, number)
            future.add_done_callback(ends.append)
            made.append((future, kind, number))
            if chance.random() < 0.2:
                chance.choice(made[-50:])[0].cancel()

    with ProcessExecutor(2, max_tasks_per_child=[None, 50][seed % 2]) as executor:
        threads = [
            threading.Thread(target=use, args=(executor, random.Random(100 * seed + at)))
            for at in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(BOUND)
        futures = [future for future, _, _ in made]
        assert wait(futures, timeout=BOUND).not_done == set()
    assert len(futures) == 4 * CALLS
    assert sorted(map(id, ends)) == sorted(map(id, futures))
    for future, kind, number in made:
        if not future.cancelled():
            error = future.exception()
            assert type(error) is FAILURES.get(kind, type(None))
            assert error is not None or future.result()[0] == number
