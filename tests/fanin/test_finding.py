from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp.fanin import BadFinding, Finding
from hmz_mp.fanin.finding import finding_of


class Timed(Finding):
    seconds: float


def test_a_finding_stays_as_it_is_and_is_a_copy() -> None:
    given = Timed("a", "needs_review", "slow", "log:3", "low", 2.5)
    found = finding_of("a", given)
    assert found == given
    assert found is not given
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("value", "status", "text"),
    [
        ({"finding": "fine"}, "ok", "fine"),
        ({"finding": {"n": 1}, "extra": 2}, "ok", '{"n": 1}'),
        ({"status": "failed"}, "failed", "failed"),
        ({"status": "needs_review", "why": "odd"}, "needs_review", '{"why": "odd"}'),
        ({"status": "up", "load": 3}, "ok", '{"status": "up", "load": 3}'),
        ("plain words", "ok", "plain words"),
        (3.5, "ok", "3.5"),
        (None, "ok", "null"),
        (Path("a/b"), "ok", '"a/b"'),
        ({1, 2}, "ok", "[1, 2]"),
        (ValueError("x"), "ok", '"ValueError: x"'),
        (complex(1, 2), "ok", "(1+2j)"),
        ("byte \udcff", "ok", "byte \\udcff"),
    ],
)
def test_any_answer_becomes_a_finding(value: Any, status: str, text: str) -> None:
    found = finding_of("a", value)
    assert (found.item_id, found.status, found.finding) == ("a", status, text)
    assert found.confidence == "high"


@pytest.mark.parametrize(
    "value",
    [
        Finding("b", "ok", "x", "", "high"),
        {"item_id": "b", "finding": "x"},
        {"finding": "x", "status": "fine"},
        {"finding": "x", "confidence": "medium"},
        Finding("a", "ok", None, "", "high"),  # type: ignore[arg-type]  # that is the point
        Finding(None, "ok", "", "", "high"),  # type: ignore[arg-type]  # the same
    ],
)
def test_what_is_no_finding_of_the_item(value: Any) -> None:
    with pytest.raises(BadFinding):
        finding_of("a", value)


@pytest.mark.parametrize("written", ["./src/a.py", "src//a.py", " src/a.py\n"])
def test_a_path_may_be_written_otherwise(written: str) -> None:
    found = finding_of("src/a.py", Finding(written, "ok", "x", "", "high"))
    assert found.item_id == "src/a.py"


def test_long_texts_are_cut_and_marked() -> None:
    found = finding_of("a", Finding("a", "ok", "x" * 2000, "y" * 2000, "high"), cap=100)
    assert len(found.finding) == len(found.evidence_ref) == 100
    assert found.finding.endswith("[cut: 2,000 characters in all]")
    assert finding_of("a", "x" * 100, cap=100).finding == "x" * 100


def test_evidence_of_its_own_goes_first() -> None:
    own = Finding("a", "ok", "x", "a.py:3", "high")
    assert finding_of("a", own, evidence="run 1").evidence_ref == "a.py:3"
    assert finding_of("a", "x", evidence="run 1").evidence_ref == "run 1"


def test_the_schema_wants_all_fields() -> None:
    schema = msgspec.json.schema(Finding)["$defs"]["Finding"]
    assert schema["required"] == ["item_id", "status", "finding", "evidence_ref", "confidence"]
    assert sorted(schema["properties"]["status"]["enum"]) == ["failed", "needs_review", "ok"]
