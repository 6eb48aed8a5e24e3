import csv
import json
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.patches import PatchJournal

from ..runs.support import new_ledger, turn
from .support import ODD_ITEM, hmz_mp, write_run


@pytest.fixture(autouse=True)
def _start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("option", [(), ("--jsonl",), ("--json",)])
def test_a_line_for_each_turn(tmp_path: Path, option: tuple[str, ...]) -> None:
    write_run(tmp_path)
    done = hmz_mp("export", "last", *option)
    assert (done.exit_code, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["item_id"] for row in rows] == ["a.py", "b.py", ODD_ITEM, "c.py", "a.py"]
    assert rows[0]["answer"] == "first line\n\x1b[31msecond [red]\n"
    assert (rows[2]["status"], rows[2]["detail"]) == ("failed", "Traceback")


def test_a_file_of_csv(tmp_path: Path) -> None:
    write_run(tmp_path)
    done = hmz_mp("export", "last", "--csv", "-o", "turns.csv")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "5 turns written to turns.csv\n"
    with (tmp_path / "turns.csv").open(newline="", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    assert [row["item_id"] for row in rows] == ["a.py", "b.py", ODD_ITEM, "c.py", "a.py"]


def test_a_file_and_json(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    said = json.loads(hmz_mp("export", "last", "--csv", "-o", "turns.csv", "--json").stdout)
    size = (tmp_path / "turns.csv").stat().st_size
    assert said == {"run_id": run_id, "file": "turns.csv", "bytes": size}


def test_a_patch_that_is_not_applied(tmp_path: Path) -> None:
    ledger = new_ledger(runs_directory(tmp_path))
    ledger.put(turn(0, state="ok", answer="done", patch=b"raw\n\ndiff\n"))
    ledger.finish("ok", 0, {})
    ledger.close()
    with PatchJournal(ledger.directory):
        pass
    (row,) = map(json.loads, hmz_mp("export", "last").stdout.splitlines())
    assert (row["status"], row["patch"]) == ("needs_review", "diff\n")


def test_no_such_run(tmp_path: Path) -> None:
    assert hmz_mp("export", "last").exit_code == 2
