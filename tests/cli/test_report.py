import json
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory

from .support import ODD_ITEM, hmz_mp, write_run


@pytest.fixture(autouse=True)
def _start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_is_written_beside_the_ledger(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("report", "last")
    file = runs_directory(tmp_path) / run_id / "report.html"
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{file}\n", "")
    text = file.read_text(encoding="utf-8")
    assert run_id in text
    assert ODD_ITEM not in text


def test_to_a_file_with_json(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("report", "last", "-o", "r.html", "--json")
    size = (tmp_path / "r.html").stat().st_size
    assert json.loads(done.stdout) == {"run_id": run_id, "file": "r.html", "bytes": size}


def test_to_standard_output(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert hmz_mp("report", "last", "-o", "-").stdout.startswith("<!doctype html>")


def test_no_such_run() -> None:
    assert hmz_mp("report", "last").exit_code == 2
