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
    done = hmz_mp("trace", "last")
    file = runs_directory(tmp_path) / run_id / "trace.json"
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{file}\n", "")
    whole = json.loads(file.read_text())
    assert whole["otherData"]["run_id"] == run_id
    assert ODD_ITEM not in file.read_text()


def test_to_a_file_with_json(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("trace", "last", "-o", "t.json", "--json")
    size = (tmp_path / "t.json").stat().st_size
    assert json.loads(done.stdout) == {"run_id": run_id, "file": "t.json", "bytes": size}


def test_to_standard_output(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert json.loads(hmz_mp("trace", "last", "-o", "-").stdout)["traceEvents"]


def test_where_nothing_can_be_written_it_is_said(tmp_path: Path) -> None:
    write_run(tmp_path)
    done = hmz_mp("trace", "last", "-o", "absent/t.json")
    assert done.exit_code == 2
    assert "'absent/t.json' cannot be written: No such file or directory" in done.stderr
