from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp_bench.runner import Measured
from hmz_mp_bench.width import NEAR, Sweep, Width, grid, knee, width_table

widths = st.builds(Width, st.integers(1, 64), st.integers(1, 512))
seconds = st.floats(1e-6, 1e6)


@given(st.dictionaries(widths, seconds, min_size=1), st.randoms(use_true_random=False))
def test_the_knee_is_the_first_width_that_is_as_good_as_the_best(
    medians: dict[Width, float], random: object
) -> None:
    shuffled = list(medians.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    found = knee(shuffled)
    best = min(medians.values())
    assert medians[found] <= NEAR * best
    assert all(took > NEAR * best for width, took in medians.items() if width < found)


def test_there_is_no_knee_of_nothing() -> None:
    with pytest.raises(ValueError, match="no width"):
        knee([])


def test_a_tool_that_computes_is_tried_around_the_cpus() -> None:
    found = grid(6, 1000, waits=False)
    assert {width.workers for width in found} == {1, 2, 4, 6, 12}
    assert {width.at_once for width in found if width.workers == 6} == {6, 12, 24}
    assert found == sorted(found)


def test_a_tool_that_waits_is_tried_with_many_at_once() -> None:
    assert {width.at_once for width in grid(2, 300, waits=True)} == {1, 4, 16, 64, 256, 300}


def test_no_more_at_once_than_files() -> None:
    assert grid(2, 3, waits=False, at_once=(1, 8, 16), workers=(2,)) == [Width(2, 1), Width(2, 3)]


def test_a_sweep_as_table_and_as_json() -> None:
    sweep = Sweep("tool/a:b", 100)
    for width, took in ((Width(2, 4), 1.0), (Width(1, 1), 3.0), (Width(4, 4), 0.97)):
        sweep.note(width, Measured({"all": took, "failed": 0}))
    sweep.note(Width(2, 4), Measured({"all": 1.0, "failed": 2}, said="a.py: ValueError"))
    table = width_table(sweep)
    assert [row[:2] + row[-1:] for row in table.rows] == [
        ["1", "1", ""],
        ["2", "4", "<- here"],
        ["4", "4", ""],
    ]
    written = json.loads(json.dumps(sweep.as_json()))
    assert written["knee"] == {"workers": 2, "at_once": 4}
    assert written["failed"] == 2
    assert written["reason"] == "a.py: ValueError"
    assert written["widths"][0] == {"workers": 1, "at_once": 1, "median": 3.0, "seconds": [3.0]}


def test_a_sweep_in_which_nothing_was_measured() -> None:
    sweep = Sweep("tool/a:b", 1)
    sweep.note(Width(1, 1), Measured(problem="exit status 3"))
    assert sweep.problem == "1 worker, 1 at once: exit status 3"
    assert sweep.as_json()["knee"] is None
    assert width_table(sweep).rows == []
