"""Whatever is in a report: no form of it loses an item, or hides one that failed."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hmz_mp.fanin import Finding, Report
from hmz_mp.fanin.brief import name_of
from hmz_mp.fanin.report import Outcome

texts = st.text(st.characters(codec=None), max_size=30)
statuses: st.SearchStrategy[Any] = st.sampled_from(["ok", "failed", "needs_review"])
values = st.one_of(
    st.none(),
    texts,
    st.floats(),
    st.integers(),
    st.dictionaries(st.text(max_size=3), st.one_of(st.floats(), st.booleans(), texts), max_size=3),
)
outcomes = st.builds(
    lambda item_id, status, text, value: Outcome(
        Finding(item_id, status, text, "", "high"), None if status == "failed" else value
    ),
    texts,
    statuses,
    texts,
    values,
)
reports = st.lists(outcomes, max_size=12, unique_by=lambda one: one.finding.item_id).map(Report)


@given(reports, st.integers(0, 400))
def test_a_brief(report: Report, size: int) -> None:
    said = report.brief(size)
    head = said.partition("\n")[0]
    assert f"{report.answered} of {report.asked} item" in head
    assert f"{len(report.failed)} failed" in head
    for failure in report.failed:
        assert name_of(failure.item_id) in head
    assert len(said) <= max(size, len(head))
    assert said.replace("\n", "").isprintable() or not said.isascii()


@given(reports)
def test_programs_read_back_what_is_written(report: Report) -> None:
    found = json.loads(report.to_json())
    assert [one["item_id"] for one in found["findings"]] == [one.item_id for one in report]
    assert [one["item_id"] for one in found["failed"]] == [one.item_id for one in report.failed]
    assert found["complete"] == report.complete == (not report.failed)
    rows = list(csv.DictReader(io.StringIO(report.to_csv(), newline="")))
    assert [row["status"] for row in rows] == [one.status for one in report]
    assert [row["item_id"].removeprefix("'") for row in rows] == [
        one.item_id.removeprefix("'") for one in report
    ]


@given(reports)
def test_views(report: Report) -> None:
    for view in (report.filter(status="ok"), report.sort("item_id"), report.sort("status")):
        assert view.counts() == report.counts()
        assert repr(view) == repr(report)
        assert view.exit_status == report.exit_status
    groups = report.group_by("status")
    assert sum(map(len, groups.values())) == len(report)
    for metric in report.metrics():
        assert set(report.scores(metric)) <= set(report.numbers(metric))
