from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hmz_mp.cli.output import AnswerWriter, HeldRows, Style, own_stdout, row
from hmz_mp.worktrees.applying import Application, NotApplied
from tests.runs.fakes import record_of


class File(io.BytesIO):
    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.writes = 0
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def write(self, data: Any) -> int:
        self.writes += 1
        return super().write(data)


def test_answers_one_after_the_other() -> None:
    file = File()
    writer = AnswerWriter(file, "print")
    writer.add(record_of("a", state="ok", answer="one"))
    writer.add(record_of("b", state="failed", error="no"))
    writer.add(record_of("c", state="ok", answer="two\nlines\n"))
    writer.add(record_of("d", state="ok", answer=""))
    assert writer.is_waiting
    assert file.writes == 0
    writer.flush()
    assert not writer.is_waiting
    assert file.getvalue() == b"one\ntwo\nlines\n\n"


def test_rows() -> None:
    file = File()
    writer = AnswerWriter(file, "json")
    ended = {"seconds": 1.5, "attempts": 2, "worker": 71}
    writer.add(record_of("a\udcff.py", state="ok", answer="é\n", **ended))
    writer.add(record_of("b", state="cancelled", error="interrupted", attempts=1))
    writer.add(record_of("c", state="not_run", error="interrupted"))
    writer.flush()
    rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert os.fsencode(rows[0]["item_id"]) == b"a\xff.py"
    assert rows[0] == {
        "item_id": "a\udcff.py",
        "status": "ok",
        "answer": "é\n",
        "error": None,
    } | ended | {"usage": []}
    assert [one["status"] for one in rows] == ["ok", "failed", "not_run"]
    assert rows[2]["error"] == "interrupted"
    assert list(rows[0]) == list(row(record_of("x")))


def test_a_row_of_an_answer_that_is_to_be_reviewed() -> None:
    record = record_of("a", state="ok", failure="needs_review", error="look", answer="{}")
    found = row(record)
    assert (found["status"], found["error"], found["answer"]) == ("needs_review", "look", "{}")
    failed = record_of("a", state="failed", failure="needs_review")
    assert row(failed)["status"] == "failed"


def test_a_row_says_what_was_used_of_models() -> None:
    usage = {
        "model": "opus",
        "input_tokens": 3,
        "output_tokens": 2,
        "cached_tokens": 1,
        "cost_usd": 0.5,
    }
    assert row(record_of("a", usage=json.dumps([usage])))["usage"] == [usage]


def test_much_is_not_kept_back() -> None:
    file = File()
    writer = AnswerWriter(file, "print")
    for _ in range(10):
        writer.add(record_of("a", state="ok", answer="x" * 30_000))
    assert 0 < file.writes < 10
    writer.flush()
    assert len(file.getvalue()) == 300_010


def test_answers_on_a_terminal_are_escaped() -> None:
    file = File(terminal=True)
    writer = AnswerWriter(file, "print")
    assert writer.on_terminal
    writer.add(record_of("a", state="ok", answer="red \x1b[31m\nand \udcff"))
    writer.flush()
    assert file.getvalue() == b"red \\x1b[31m\nand \\xff\n"


def test_elsewhere_bytes_come_out_as_they_went_in() -> None:
    file = File()
    writer = AnswerWriter(file, "print")
    writer.add(record_of("a", state="ok", answer="\x1b[31m\udcff"))
    writer.flush()
    assert file.getvalue() == b"\x1b[31m\xff\n"


@pytest.mark.parametrize("answer", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_that_stands_for_no_byte_is_still_written(answer: str) -> None:
    file = File()
    writer = AnswerWriter(file, "print")
    writer.add(record_of("a", state="ok", answer=answer))
    writer.flush()
    assert file.getvalue().endswith(b"\n")


def test_a_reader_that_went_away() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", buffering=0) as file:
        writer = AnswerWriter(file, "json")
        writer.add(record_of("a", state="ok", answer="one"))
        writer.flush()
        assert writer.closed_by_reader
        writer.add(record_of("b", state="ok", answer="two"))
        assert not writer.is_waiting


def held_rows(style: Style) -> tuple[HeldRows, AnswerWriter, File]:
    file = File()
    writer = AnswerWriter(file, style)
    return HeldRows(writer), writer, file


def test_rows_are_kept_back_from_the_first_that_has_a_patch() -> None:
    rows, writer, file = held_rows("json")
    for number, (name, patch) in enumerate([("a", b""), ("b", b"patch"), ("c", None), ("d", b"x")]):
        rows.add(record_of(name, number=number, state="ok", answer="done", patch=patch))
    rows.add(record_of("e", number=4, state="failed", error="no", patch=b"half"))
    writer.flush()
    assert [json.loads(line)["item_id"] for line in file.getvalue().splitlines()] == ["a"]
    refused = [NotApplied(1, "b", "it does not fit"), NotApplied(4, "e", "nor this")]
    rows.release(Application(refused=refused))
    rows.release(Application())
    writer.flush()
    told = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(row["item_id"], row["status"], row["error"]) for row in told] == [
        ("a", "ok", None),
        ("b", "needs_review", "it does not fit"),
        ("c", "ok", None),
        ("d", "ok", None),
        ("e", "failed", "no"),
    ]


def test_a_problem_of_all_is_said_of_all_that_have_patches() -> None:
    rows, writer, file = held_rows("json")
    for number, patch in enumerate([b"patch", b""]):
        rows.add(record_of(f"{number}", number=number, state="ok", answer="done", patch=patch))
    rows.release(Application(problem="the ledger cannot be read"))
    writer.flush()
    told = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(row["status"], row["error"]) for row in told] == [
        ("needs_review", "the ledger cannot be read"),
        ("ok", None),
    ]


def test_answers_for_people_are_not_kept_back() -> None:
    rows, writer, file = held_rows("print")
    rows.add(record_of("a", state="ok", answer="done", patch=b"patch"))
    writer.flush()
    assert file.getvalue() == b"done\n"


KEPT = """
import os, subprocess, sys
from hmz_mp.cli.output import own_stdout
print("before")
with own_stdout() as file:
    print("by print")
    sys.stdout.flush()
    subprocess.run(["echo", "by a child"], check=True)
    os.write(1, b"by number\\n")
    file.write(b"a row\\n")
print("after")
"""


def test_standard_output_is_kept_for_the_run() -> None:
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, check=True)
    assert done.stdout == b"before\na row\nafter\n"
    assert done.stderr == b"by print\nby a child\nby number\n"


def test_a_standard_output_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err := io.StringIO())
    with own_stdout() as file:
        print("by print")
        file.write(b"a row\n")
    print("after")
    assert out.buffer.getvalue() == b"a row\nafter\n"
    assert err.getvalue() == "by print\n"
