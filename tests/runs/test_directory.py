import threading
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.directory import make_run_directory, run_id_at


def test_runs_are_kept_below_where_they_start(tmp_path: Path) -> None:
    assert runs_directory(tmp_path) == tmp_path / ".hmz-mp" / "runs"


def test_ids_say_when_and_sort_by_it() -> None:
    assert run_id_at(0.0) == "19700101-000000-0000"
    assert run_id_at(1_700_000_000.5) == "20231114-221320-8000"
    moments = [1_700_000_000 + step / 1000 for step in range(5000)]
    ids = [run_id_at(moment) for moment in moments]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_git_is_told_to_look_away(tmp_path: Path) -> None:
    make_run_directory(tmp_path / ".hmz-mp" / "runs")
    assert (tmp_path / ".hmz-mp" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".hmz-mp" / ".gitignore").write_text("mine\n")
    make_run_directory(tmp_path / ".hmz-mp" / "runs")
    assert (tmp_path / ".hmz-mp" / ".gitignore").read_text() == "mine\n"


def test_a_directory_that_is_not_ours_is_not_hidden(tmp_path: Path) -> None:
    make_run_directory(tmp_path / "elsewhere")
    assert not (tmp_path / ".gitignore").exists()
    assert (tmp_path / "elsewhere" / ".gitignore").read_text() == "*\n"


def test_two_runs_of_one_instant_take_two_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants = iter([5.0, 5.0, 5.0, 5.5])
    monkeypatch.setattr("hmz_mp.runs.directory.time.time", lambda: next(instants))
    first, second = make_run_directory(tmp_path), make_run_directory(tmp_path)
    assert (first.name, second.name) == ("19700101-000005-0000", "19700101-000005-8000")


def test_many_at_once_are_all_different(tmp_path: Path) -> None:
    made: list[Path] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait(10)
        made.extend(make_run_directory(tmp_path / "runs") for _ in range(20))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(made)) == 160


def test_a_clock_that_stands_still_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmz_mp.runs.directory.time.time", lambda: 5.0)
    make_run_directory(tmp_path)
    with pytest.raises(FileExistsError, match="no new run could be named"):
        make_run_directory(tmp_path)
