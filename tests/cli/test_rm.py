import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.cli import rm
from hmz_mp.runs import runs_directory

from ..runs.support import new_ledger, turn
from .support import hmz_mp, write_run


@pytest.fixture(autouse=True)
def _start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def runs_left(start: Path) -> list[str]:
    return sorted(one.name for one in runs_directory(start).iterdir() if one.is_dir())


def run_with_a_patch(start: Path) -> str:
    with closing(new_ledger(runs_directory(start))) as ledger:
        ledger.put(turn(0, state="ok", answer="done", patch=b"raw\n\ndiff\n"))
        ledger.finish("ok", 0, {})
    return ledger.run_id


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command believe that somebody can be asked."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    class Streams:
        stdin = stderr = Terminal()

    monkeypatch.setattr(rm, "sys", Streams)


def test_runs_are_removed(tmp_path: Path) -> None:
    ids = [write_run(tmp_path) for _ in range(3)]
    done = hmz_mp("rm", ids[0], "last")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"removed run {ids[0]}\nremoved run {ids[2]}\n"
    assert runs_left(tmp_path) == [ids[1]]


def test_json(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    done = hmz_mp("rm", "--json", run_id, "last")
    assert json.loads(done.stdout) == {"run_id": run_id, "status": "removed"}
    assert runs_left(tmp_path) == []


def test_a_run_that_goes_on_is_refused(tmp_path: Path) -> None:
    over = write_run(tmp_path)
    with closing(new_ledger(runs_directory(tmp_path))) as ledger:
        ledger.flush()
        done = hmz_mp("rm", "--yes", over, "last")
        assert done.exit_code == 2
        assert f"run {ledger.run_id} goes on" in done.stderr
    assert len(runs_left(tmp_path)) == 2


@pytest.mark.usefixtures("on_a_terminal")
@pytest.mark.parametrize(("said", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_it_asks_on_a_terminal(tmp_path: Path, said: str, status: int) -> None:
    from click.testing import CliRunner

    from hmz_mp.cli.main import group

    run_id = run_with_a_patch(tmp_path)
    done = CliRunner().invoke(group, ["rm", run_id], input=said, prog_name="hmz-mp")
    assert f"run {run_id} (ok: 1 ok, 1 patch of it not applied)\nRemove this run?" in done.stderr
    assert done.exit_code == status
    assert bool(runs_left(tmp_path)) == bool(status)


@pytest.mark.usefixtures("on_a_terminal")
def test_yes_asks_nobody(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert hmz_mp("rm", "last", "--yes").stderr == ""
    assert runs_left(tmp_path) == []


def test_patches_are_not_lost_without_a_word(tmp_path: Path) -> None:
    run_id = run_with_a_patch(tmp_path)
    done = hmz_mp("rm", "last")
    assert done.exit_code == 2
    assert f"run {run_id}: 1 patch of it not applied; --yes" in done.stderr
    assert runs_left(tmp_path) == [run_id]
    assert hmz_mp("rm", "last", "--yes").exit_code == 0


def test_a_ledger_that_cannot_be_read_is_removed_with_yes(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    (runs_directory(tmp_path) / run_id / "run.db").write_bytes(b"nonsense" * 999)
    done = hmz_mp("rm", "last")
    assert done.exit_code == 2
    assert "file is not a database; --yes removes it" in done.stderr
    assert hmz_mp("rm", "last", "-y").exit_code == 0
    assert runs_left(tmp_path) == []


def test_what_a_killed_removal_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    first, second = write_run(tmp_path), write_run(tmp_path)
    runs_dir = runs_directory(tmp_path)
    (runs_dir / first).rename(runs_dir / f"{first}.removing")
    assert hmz_mp("rm", second).exit_code == 0
    assert runs_left(tmp_path) == []


def test_a_directory_that_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path)

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refused)
    done = hmz_mp("rm", "last")
    assert done.exit_code == 2
    assert "cannot be removed: Permission denied" in done.stderr


def test_a_ledger_of_an_older_version(tmp_path: Path) -> None:
    run_id = write_run(tmp_path)
    with closing(sqlite3.connect(runs_directory(tmp_path) / run_id / "run.db")) as connection:
        connection.execute("DROP TABLE patches")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    assert hmz_mp("rm", "last").exit_code == 0


def test_no_such_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert "there is no run 'x'" in hmz_mp("rm", "x").stderr
    assert len(runs_left(tmp_path)) == 1
