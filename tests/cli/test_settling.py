from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hmz_mp.cli.settling import Course, _status, went_its_way
from hmz_mp.errors import BadInput


def run_of(**changes: Any) -> Any:
    """Return what is asked of a run in which three turns were ok."""
    tally = {"ok": 3, "total": 3, "to_review": 0, "not_run": 0} | changes.pop("tally", {})
    given = {"tally": SimpleNamespace(**tally), "overrun": None, "halted": None}
    return SimpleNamespace(**given | changes)


ENDED = {"flow_ended": True}


@pytest.mark.parametrize(
    ("course", "run", "reader_left", "wanted"),
    [
        (ENDED, {}, False, (0, "ok")),
        (ENDED, {"tally": {"ok": 2}}, False, (1, "failed")),
        (ENDED, {"tally": {"to_review": 1}}, False, (1, "failed")),
        (ENDED, {"tally": {"ok": 2, "not_run": 1}, "overrun": "money"}, False,
         (1, "budget spent")),
        (ENDED, {"tally": {"ok": 2}, "overrun": "money"}, False, (1, "failed")),
        (ENDED, {}, True, (141, "reader gone")),
        ({"flow_error": ValueError()}, {}, True, (3, "flow raised")),
        ({"bad_input": BadInput("no"), "flow_error": ValueError()}, {}, False, (2, "bad input")),
        ({"interruptions": 1, "bad_input": BadInput("no")}, {}, True, (130, "interrupted")),
    ],
)  # fmt: skip
def test_the_exit_status(
    course: dict[str, Any], run: dict[str, Any], reader_left: bool, wanted: tuple[int, str]
) -> None:
    assert _status(Course(**course), run_of(**run), reader_left=reader_left) == wanted


def test_a_flow_that_went_its_way() -> None:
    assert went_its_way(Course(flow_ended=True), run_of())
    assert not went_its_way(Course(), run_of())
    assert not went_its_way(Course(flow_ended=True, flow_error=ValueError()), run_of())
    assert not went_its_way(Course(flow_ended=True), run_of(halted="interrupted"))
