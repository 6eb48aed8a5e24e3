from __future__ import annotations

from dataclasses import replace

import pytest

from hmz_mp_bench.measuring import Position, carry_out
from hmz_mp_bench.plan import Estimate, Step, plan
from hmz_mp_bench.registry import CONTENDERS
from hmz_mp_bench.results import Results
from hmz_mp_bench.runner import Measured
from hmz_mp_bench.workloads import WORKLOADS, Workload

ONE = replace(WORKLOADS["gathered"], contenders=("hmz-mp", "loky", "ray"), runs=2, thrown_away=1)
BOTH: dict[str, Workload] = {"one": ONE, "two": replace(ONE, thrown_away=0, cannot={"loky": "no"})}


def planned(available: tuple[str, ...] = ("hmz-mp", "loky", "ray")) -> list[Step]:
    return plan(BOTH, CONTENDERS, available, "full")


def test_contenders_take_turns_and_first_runs_do_not_count() -> None:
    steps = [(one.contender, one.run, one.counts) for one in planned() if one.workload == "one"]
    assert steps == [
        ("hmz-mp", 0, False), ("loky", 0, False), ("ray", 0, True),
        ("hmz-mp", 1, True), ("loky", 1, True),
        ("hmz-mp", 2, True), ("loky", 2, True),
    ]  # fmt: skip


def test_who_cannot_or_is_not_there_is_not_asked() -> None:
    assert {one.contender for one in planned() if one.workload == "two"} == {"hmz-mp", "ray"}
    assert {one.contender for one in planned(("loky",))} == {"loky"}


def test_small_sizes_run_once_unless_told_otherwise() -> None:
    assert len(plan({"one": ONE}, CONTENDERS, ("loky",), "quick")) == 1
    assert len(plan({"one": ONE}, CONTENDERS, ("loky",), "quick", runs=4)) == 4


def test_what_is_left_follows_what_was_measured() -> None:
    steps = [Step("one", "loky", run, True, 10.0) for run in range(3)]
    estimate = Estimate()
    assert estimate.left(steps) == 30.0
    estimate.note(steps[0], 2.0)
    assert estimate.left(steps[1:]) == 4.0


def test_a_failure_ends_that_contender_and_no_other() -> None:
    results = Results(BOTH)
    asked = []

    def run(step: Step) -> Measured:
        asked.append((step.workload, step.contender))
        if (step.workload, step.contender) == ("one", "loky"):
            return Measured(problem="wrong answer")
        return Measured({"call": 1.0})

    positions: list[Position] = []
    carry_out(planned(), results, run, positions.append)
    assert asked.count(("one", "loky")) == 1
    assert results.problems == [("one", "loky", "wrong answer")]
    assert results.median("one", "loky") is None
    assert len(results.cell("one", "hmz-mp").samples) == 2  # of three, the first thrown away
    assert [one.number for one in positions] == sorted({one.number for one in positions})


def test_an_interruption_leaves_what_was_measured() -> None:
    results = Results(BOTH)

    def run(step: Step) -> Measured:
        if step.run == 2:
            raise KeyboardInterrupt
        return Measured({"call": 1.0})

    with pytest.raises(KeyboardInterrupt):
        carry_out(planned(), results, run)
    assert results.partial
    assert results.median("one", "hmz-mp") == 1.0
