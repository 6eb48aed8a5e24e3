from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from hmz_mp.fanin import Finding, Report
from hmz_mp.fanin.report import Outcome


class Timed(Finding):
    seconds_waited: float


class Size(msgspec.Struct):
    lines: int
    name: str = "x"


@dataclass(slots=True)
class Slotted:
    lines: int


class Pair(NamedTuple):
    lines: int
    words: int


def outcome(item_id: str, value: Any = None, *, status: Any = "ok", **more: Any) -> Outcome:
    text = more.pop("text", "fine")
    confidence = more.pop("confidence", "high")
    return Outcome(Finding(item_id, status, text, "", confidence), value, **more)


def of_values(*values: Any) -> Report:
    return Report([outcome(str(place), value) for place, value in enumerate(values)])


MIXED = Report(
    [
        outcome("c", {"n": 3}),
        outcome("a", {"n": 1}, confidence="low"),
        outcome("bad", status="failed", text="boom", cause=ValueError("boom")),
        outcome("odd", {"n": 2}, status="needs_review", text="look"),
    ]
)


def test_what_it_counts() -> None:
    assert (MIXED.asked, MIXED.answered, len(MIXED)) == (4, 3, 4)
    assert MIXED.counts() == {"ok": 2, "failed": 1, "needs_review": 1}
    assert [one.item_id for one in MIXED.needs_review] == ["odd"]
    assert [(one.item_id, str(one.cause)) for one in MIXED.failed] == [("bad", "boom")]
    assert not MIXED.complete
    assert MIXED.exit_status == 1
    assert repr(MIXED) == ("<Report 3 of 4 items answered, 1 failed: bad; 1 to be reviewed: odd>")
    assert MIXED["a"].confidence == "low"
    with pytest.raises(KeyError):
        MIXED["zzz"]


def test_one_that_needs_review_is_answered() -> None:
    report = Report([outcome("odd", status="needs_review")])
    assert report.complete
    assert (report.exit_status, Report([]).exit_status) == (1, 0)
    assert report.counts() == {"ok": 0, "failed": 0, "needs_review": 1}


def test_views_count_all_items() -> None:
    only = MIXED.filter(status="ok")
    assert [one.item_id for one in only] == ["c", "a"]
    assert not only.complete
    assert only.asked == 4
    assert [one.item_id for one in only.failed] == ["bad"]
    assert "1 failed: bad" in str(only)
    assert [one.item_id for one in MIXED.filter(lambda one: "d" in one.item_id)] == ["bad", "odd"]
    assert [one.item_id for one in MIXED.sort("item_id")] == ["a", "bad", "c", "odd"]
    longest = MIXED.sort(lambda one: len(one.item_id), reverse=True)
    assert [one.item_id for one in longest] == ["bad", "odd", "c", "a"]
    assert [one.item_id for one in MIXED] == ["c", "a", "bad", "odd"]
    assert [one.item_id for one in longest.filter(status="ok").sort("item_id")] == ["a", "c"]


def test_groups() -> None:
    groups = MIXED.group_by("status")
    assert {key: [one.item_id for one in found] for key, found in groups.items()} == {
        "ok": ["c", "a"],
        "failed": ["bad"],
        "needs_review": ["odd"],
    }
    assert list(MIXED.group_by(lambda one: len(one.item_id))) == [1, 3]
    for read in (MIXED.group_by, MIXED.sort, lambda _: MIXED.filter(colour=1)):
        with pytest.raises(KeyError, match="colour"):
            read("colour")
    assert Report([]).group_by("colour") == {}


def test_fields_of_answers_serve_as_well() -> None:
    by_number = MIXED.group_by("n")
    assert {key: len(found) for key, found in by_number.items()} == {3: 1, 1: 1, None: 1, 2: 1}
    assert [one.item_id for one in MIXED.sort("n")] == ["a", "odd", "c", "bad"]
    assert [one.item_id for one in MIXED.sort("n", reverse=True)] == ["c", "odd", "a", "bad"]
    assert [one.item_id for one in MIXED.filter(n=2)] == ["odd"]


@pytest.mark.parametrize(
    "values",
    [
        [{"lines": n} for n in range(3)],
        [Size(n) for n in range(3)],
        [Slotted(n) for n in range(3)],
        [Pair(n, 0) for n in range(3)],
    ],
)
def test_numbers_of_answers_of_any_kind(values: list[Any]) -> None:
    report = of_values(*values)
    assert report.numbers("lines") == {"0": 0, "1": 1, "2": 2}
    assert report.metrics()[0] == "lines"


def test_numbers_of_findings_and_of_the_work() -> None:
    findings = [Outcome(Timed(str(n), "ok", "x", "", "high", n / 2), seconds=n) for n in range(3)]
    report = Report(findings)
    assert report.numbers("seconds_waited") == {"0": 0, "1": 0.5, "2": 1}
    assert report.numbers("seconds") == {"0": 0, "1": 1, "2": 2}
    assert report.total("tries") == 3
    assert of_values(3, 4).numbers("value") == {"0": 3, "1": 4}
    by_text = report.numbers(lambda one: None if one.item_id == "1" else len(one.item_id))
    assert by_text == {"0": 1, "2": 1}


def test_what_is_no_number_is_left_out() -> None:
    values = [{"n": True}, {"n": "3"}, {"n": None}, {"n": math.nan}, {}, {"n": 10**400}, {"n": 1}]
    assert of_values(*values).numbers("n") == {"5": math.inf, "6": 1}


def test_a_metric_that_no_answer_has() -> None:
    with pytest.raises(KeyError, match="no answer has a number 'lines'; there are n, seconds"):
        MIXED.outliers("lines")
    assert Report([]).outliers("lines") == []
    assert Report([outcome("a", status="failed")]).outliers("lines") == []


def test_outliers_are_findings_of_what_was_answered() -> None:
    report = Report(
        [
            *(outcome(str(n), {"n": n % 3}) for n in range(10)),
            outcome("far", {"n": 50}),
            outcome("farther", {"n": -900}),
            outcome("failed", {"n": 9999}, status="failed"),
        ]
    )
    assert [one.item_id for one in report.outliers("n")] == ["farther", "far"]
    assert report.outliers("n", threshold=10_000) == []
    assert [one.item_id for one in report.outliers(lambda o: len(o.item_id))] == ["farther"]
    assert [one.item_id for one in report.filter(lambda o: o.item_id != "far").outliers("n")] == [
        "farther"
    ]
