from __future__ import annotations

import pytest

from hmz_mp.fanin import Report
from hmz_mp.fanin.brief import name_of
from tests.fanin.test_report import MIXED, outcome

TWENTY = Report(
    [
        *(outcome(f"svc-{n}", {"ms": 10 + n % 3}, text="healthy") for n in range(16)),
        outcome("svc-slow", {"ms": 900}, text="slow but up"),
        outcome("svc-odd", {"ms": 11}, status="needs_review", text="flaps", confidence="low"),
        outcome("svc-down", status="failed", text="ConnectError: refused"),
        outcome("svc 9\x1b[31m", status="failed", text="boom\n[red]now[/red]"),
    ]
)
HEAD = r'18 of 20 items answered, 2 failed: svc-down, "svc 9\\x1b[31m"; 1 to be reviewed: svc-odd'


def test_a_brief_is_totals_failures_outliers_and_groups() -> None:
    assert TWENTY.brief().splitlines() == [
        HEAD,
        "failed: svc-down: ConnectError: refused",
        r'failed: "svc 9\\x1b[31m": boom [red]now[/red]',
        "ms: median 11, from 10 to 900; outliers: svc-slow 900",
        "16 say: healthy: svc-0, svc-1, svc-2, svc-3, svc-4, svc-5, svc-6, svc-7 and 8 more",
        "1 with low confidence: svc-odd",
        "svc-odd: [needs_review] flaps (confidence low)",
        "svc-slow: slow but up",
    ]


def test_a_brief_without_single_findings() -> None:
    assert TWENTY.brief(findings=False).splitlines() == TWENTY.brief().splitlines()[:4]


@pytest.mark.parametrize("size", [0, 1, 90, 150, 200, 300, 400, 500, 5000])
def test_a_brief_keeps_to_its_size_and_always_has_what_failed(size: int) -> None:
    said = TWENTY.brief(size)
    assert said.startswith(HEAD)
    assert len(said) <= max(size, len(HEAD))
    assert said == TWENTY.brief() or "more not shown" in said or size < len(HEAD) + 30


def test_all_that_failed_is_named_however_many() -> None:
    report = Report([outcome(f"item{n}", status="failed") for n in range(1000)])
    said = report.brief(100)
    assert said.startswith("0 of 1,000 items answered, 1,000 failed: item0, ")
    assert all(f"item{n}" in said for n in range(1000))


def test_a_brief_of_a_view_says_so() -> None:
    said = TWENTY.filter(status="ok", finding="healthy").brief()
    assert said.startswith(HEAD)
    assert "of those answered, these are 16 that were selected" in said


def test_a_whole_report_reads_as_complete() -> None:
    report = Report([outcome("a", {"ms": 1}), outcome("b", {"ms": 1})])
    assert str(report) == "2 of 2 items answered, 0 failed\na: fine\nb: fine"
    assert "ms: median 1, from 1 to 1, no outliers" in report.brief()


def test_no_form_hides_what_failed() -> None:
    for form in (str(TWENTY), repr(TWENTY), TWENTY.brief(1), TWENTY.to_json(), TWENTY.to_csv()):
        assert "18 of 20" in form
        assert "svc-down" in form
        assert "svc 9" in form


def test_lines_of_a_report() -> None:
    assert str(MIXED).splitlines() == [
        "3 of 4 items answered, 1 failed: bad; 1 to be reviewed: odd",
        "c: fine",
        "a: fine (confidence low)",
        "bad: [failed] boom",
        "odd: [needs_review] look",
    ]


@pytest.mark.parametrize(
    ("item_id", "name"),
    [
        ("src/a.py", "src/a.py"),
        ("a b", '"a b"'),
        ("", '""'),
        ("a, b", '"a, b"'),
        ("\udcff", r'"\\xff"'),
        ("größe", "größe"),
    ],
)
def test_names_stand_out(item_id: str, name: str) -> None:
    assert name_of(item_id) == name
