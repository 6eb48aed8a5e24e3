from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hmz_mp.cli import gc
from hmz_mp.worktrees.home import Cleared

from .support import hmz_mp


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Cleared]:
    """What is found to be left behind; empty at first."""
    monkeypatch.chdir(tmp_path)
    found: list[Cleared] = []

    def clear(start: Path, *, pretend: bool = False) -> list[Cleared]:
        assert start == tmp_path
        return found

    monkeypatch.setattr(gc, "clear_left_behind", clear)
    monkeypatch.setattr(gc, "left_behind", lambda: iter(()))
    monkeypatch.setattr(gc, "_not_applied", lambda one: ["a", "b"] if one.name == "two" else [])
    return found


def test_nothing(found: list[Cleared]) -> None:
    done = hmz_mp("gc")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "nothing is left behind here\n"
    assert hmz_mp("gc", "--json").output == ""


def test_what_was_removed_and_what_is_in_use(found: list[Cleared]) -> None:
    found += [
        Cleared("one\x1b", 1),
        Cleared("two", 3, start=Path.cwd()),
        Cleared("three", is_alive=True),
    ]
    done = hmz_mp("gc")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "removed 1 worktree of run one\\x1b",
        "removed 3 worktrees of run two",
        "  2 patches of it not applied yet: hmz-mp apply two",
        "run three goes on: its worktrees are let alone",
    ]
    assert "would remove 3 worktrees of run two" in hmz_mp("gc", "--dry-run").stdout


def test_what_could_not_be_removed(found: list[Cleared]) -> None:
    found.append(Cleared("one", 2, problems=("'x' could not be removed: no",)))
    done = hmz_mp("gc")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "could not remove all of 2 worktrees of run one",
        "  'x' could not be removed: no",
    ]


def test_as_json(found: list[Cleared]) -> None:
    found += [Cleared("two", 3), Cleared("three", is_alive=True), Cleared("x", problems=("no",))]
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in hmz_mp("gc", "--json").stdout.splitlines()
    ]
    assert [(row["run_id"], row["status"], row["worktrees"]) for row in rows] == [
        ("two", "removed", 3),
        ("three", "in use", 0),
        ("x", "failed", 0),
    ]
    assert rows[0]["not_applied"] == ["a", "b"]
    first, *_ = hmz_mp("gc", "--json", "--dry-run").stdout.splitlines()
    assert json.loads(first)["status"] == "left"


def test_a_run_without_a_ledger_has_nothing_to_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert gc._not_applied(Cleared("none", start=tmp_path)) == []
    broken = tmp_path / ".hmz-mp" / "runs" / "broken"
    broken.mkdir(parents=True)
    (broken / "run.db").write_bytes(b"nonsense" * 1000)
    assert gc._not_applied(Cleared("broken", start=tmp_path)) == []


# Folders of agents.


@pytest.fixture
def folders(found: list[Cleared], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Folders that a killed program has left."""
    made = [tmp_path / "hmz-mp-chat-1", tmp_path / "hmz-mp-homes-\x1b"]
    for one in made:
        one.mkdir()
        (one / "x").touch()
    monkeypatch.setattr(gc, "left_behind", lambda: iter(made))
    return made


def test_folders_are_removed(folders: list[Path]) -> None:
    done = hmz_mp("gc", "--dry-run")
    assert done.stdout.splitlines()[0] == (
        f"would remove {folders[0]}, of an agent whose program was killed"
    )
    assert all(one.exists() for one in folders)
    done = hmz_mp("gc")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith(
        f"removed {folders[1].parent}/hmz-mp-homes-\\x1b,"
    )
    assert not any(one.exists() for one in folders)


def test_a_folder_that_cannot_be_removed(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(f"not {path}")

    monkeypatch.setattr(gc, "remove", refuse)
    done = hmz_mp("gc")
    assert done.exit_code == 1
    assert "hmz-mp-chat-1' could not be removed: not /" in done.stdout
    first, _ = (json.loads(line) for line in hmz_mp("gc", "--json").stdout.splitlines())
    assert (first["folder"], first["status"]) == (str(folders[0]), "failed")
    assert len(first["problems"]) == 1
