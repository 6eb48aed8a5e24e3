import csv
import io
import json
import os

from hmz_mp.report.rows import FIELDS, csv_lines, full_row, jsonl_lines
from hmz_mp.runs.reading import PatchState

from ..runs.support import turn

NASTY = "[bold]x<img src=x onerror=alert(1)>\x1b[2J.py"


def test_a_row_has_every_field_in_order() -> None:
    usage = '[{"model": "m", "input_tokens": 3}]'
    row = full_row(turn(0, state="ok", answer="a", usage=usage, began_at=101.5, path=b"\xff.py"))
    assert tuple(row) == FIELDS
    assert row["usage"] == [{"model": "m", "input_tokens": 3}]
    assert row["submitted_at"] == "1970-01-01T00:01:40.000000+00:00"
    assert row["ended_at"] is None
    assert row["path"] == "\udcff.py"


def test_a_status_is_as_exec_says_it() -> None:
    states = ["ok", "failed", "cancelled", "not_run", "running"]
    said = [full_row(turn(0, state=state))["status"] for state in states]
    assert said == ["ok", "failed", "failed", "not_run", "running"]


def test_an_answer_whose_patch_did_not_fit_needs_review() -> None:
    patch = PatchState("conflict", "it does not fit", None)
    row = full_row(turn(0, state="ok", answer="a", patch=b"raw\n\ndiff \xff\n"), patch)
    assert (row["status"], row["error"]) == ("needs_review", "it does not fit")
    assert row["patch"] == "diff \udcff\n"


def test_jsonl_keeps_any_text_and_is_ascii() -> None:
    answer = f"</script>{NASTY}\udcff\ud800\r\n"
    (line,) = jsonl_lines([full_row(turn(0, NASTY, state="ok", answer=answer))])
    assert line.isascii()
    assert line.count("\n") == 1
    assert "\x1b" not in line
    row = json.loads(line)
    assert (row["item_id"], row["answer"]) == (NASTY, answer)


def test_csv_keeps_line_ends_quotes_and_commas() -> None:
    answer = 'a "b", c\nd'
    given = [turn(0, NASTY, state="ok", answer=answer), turn(1, "", state="failed", error="no")]
    text = "".join(csv_lines(map(full_row, given)))
    first, second = csv.DictReader(io.StringIO(text, newline=""))
    assert (first["item_id"], first["answer"], first["usage"]) == (NASTY, answer, "[]")
    assert (second["status"], second["error"], second["answer"]) == ("failed", "no", "")


def test_csv_of_no_turns_is_its_headings() -> None:
    assert "".join(csv_lines([])) == ",".join(FIELDS) + "\r\n"


def test_names_that_are_not_utf8_are_their_bytes_again() -> None:
    (_, line) = csv_lines([full_row(turn(0, os.fsdecode(b"\xff.py")))])
    assert b"\xff.py" in line.encode("utf-8", "surrogateescape")


def test_a_finding_to_be_reviewed() -> None:
    row = full_row(turn(0, state="ok", failure="needs_review", error="unsure"))
    assert (row["status"], row["error"]) == ("needs_review", "unsure")
