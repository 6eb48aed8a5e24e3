from __future__ import annotations

import csv
import io
import json

import pytest

from hmz_mp.fanin import Finding, Report
from hmz_mp.fanin.report import Outcome
from tests.fanin.test_brief import TWENTY
from tests.fanin.test_report import MIXED, outcome


def rows(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(report.to_csv(), newline="")))


def test_json() -> None:
    found = json.loads(MIXED.to_json())
    findings = found.pop("findings")
    assert found == {
        "complete": False,
        "summary": "3 of 4 items answered, 1 failed: bad; 1 to be reviewed: odd",
        "asked": 4,
        "answered": 3,
        "counts": {"ok": 2, "failed": 1, "needs_review": 1},
        "failed": [{"item_id": "bad", "cause": "boom"}],
    }
    assert [one["item_id"] for one in findings] == ["c", "a", "bad", "odd"]
    fields = {"item_id": "a", "status": "ok", "finding": "fine", "evidence_ref": ""}
    work = {"seconds": 0.0, "tries": 1, "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
    assert findings[1] == fields | {"confidence": "low"} | work


def test_json_of_a_view_is_about_all_items() -> None:
    found = json.loads(MIXED.filter(status="ok").to_json())
    assert not found["complete"]
    assert found["failed"] == [{"item_id": "bad", "cause": "boom"}]
    assert len(found["findings"]) == 2


def test_an_empty_report_is_a_complete_one() -> None:
    found = json.loads(Report([]).to_json())
    assert (found["complete"], found["asked"], found["findings"]) == (True, 0, [])
    assert rows(Report([])) == []


def test_ids_of_any_bytes() -> None:
    name = "\udcff\n,\"';.py"
    report = Report([outcome(name), outcome("b")])
    assert json.loads(report.to_json())["findings"][0]["item_id"] == name
    assert rows(report)[0]["item_id"] == name


def test_a_subclass_has_its_fields_in_json() -> None:
    class Odd(Finding):
        extra: object

    def reported(extra: object) -> dict[str, object]:
        report = Report([Outcome(Odd("a", "ok", "x", "", "high", extra))])
        found: dict[str, object] = json.loads(report.to_json())["findings"][0]
        return found

    assert reported([1])["extra"] == [1]
    assert "extra" not in reported(object())


def test_csv_has_a_row_each_that_says_how_much_there_is() -> None:
    found = rows(TWENTY)
    assert len(found) == 20
    assert {row["report"] for row in found} == {"18 of 20 items answered, 2 failed"}
    assert [row["item_id"] for row in found if row["status"] == "failed"] == [
        "svc-down",
        "svc 9\x1b[31m",
    ]


@pytest.mark.parametrize("text", ["=1+1", "=HYPERLINK(x)", "+cmd|' /C calc'!A0", "@SUM(A1)", " =1"])
def test_no_cell_is_a_formula(text: str) -> None:
    (row,) = rows(Report([outcome(text, text=text)]))
    assert row["item_id"] == row["finding"] == f"'{text}"


@pytest.mark.parametrize("text", ["-3 degrees", "@scope/package", "+1", "a=b", ""])
def test_other_cells_stay(text: str) -> None:
    (row,) = rows(Report([outcome(text, text=text)]))
    assert row["item_id"] == row["finding"] == text


def test_a_table_escapes_what_others_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    TWENTY.show(file)
    said = file.getvalue()
    assert "18 of 20 items answered, 2 failed" in said
    assert "[red]now[/red]" in said
    assert "\x1b" not in said
    TWENTY.show()
    assert capsys.readouterr().out == said
