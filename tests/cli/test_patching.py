from __future__ import annotations

from pathlib import Path

import pytest

from hmz_mp.cli import patching
from hmz_mp.cli.checks import Checked, Options
from hmz_mp.cli.patching import apply_run, close_worktrees, make_worktrees, patch_lines
from hmz_mp.errors import BadInput
from hmz_mp.runs.ledger import Ledger
from hmz_mp.worktrees.applying import Application, NotApplied
from hmz_mp.worktrees.trees import Worktrees
from tests.runs.support import new_ledger
from tests.worktrees.support import Repository


def refused(number: int, file: str | None = None) -> NotApplied:
    return NotApplied(number, f"item\x1b{number}", "it does not fit", file)


def test_nothing_is_said_of_no_patches() -> None:
    assert patch_lines(Application(), "run-1") == []


def test_what_was_applied() -> None:
    assert patch_lines(Application(applied=1), "run-1") == ["1 patch applied to the checkout"]
    assert patch_lines(Application(applied=1200), "r") == ["1,200 patches applied to the checkout"]
    assert patch_lines(Application(applied=1), "run-1", quiet=True) == []


def test_what_was_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = str(tmp_path / "sub" / "a.patch"), "/elsewhere/b\x1b.patch"
    told = Application(applied=3, refused=[refused(0, here), refused(1, there)])
    assert patch_lines(told, "run-1", quiet=True) == [
        "2 patches not applied, and left for you:",
        "  item\\x1b0: it does not fit",
        "    sub/a.patch",
        "  item\\x1b1: it does not fit",
        "    /elsewhere/b\\x1b.patch",
        "  by hand: git apply --3way FILE",
        "to try again: hmz-mp apply run-1",
    ]


def test_what_was_not_even_tried() -> None:
    told = Application(refused=[refused(0), refused(1)], problem="the disk\x1b is full")
    assert patch_lines(told, "run-1") == [
        "patches were not applied: the disk\\x1b is full",
        "2 patches waiting in the ledger: item\\x1b0, item\\x1b1",
        "to try again: hmz-mp apply run-1",
    ]


def test_long_lists_are_cut() -> None:
    told = Application(refused=[refused(number, "/x") for number in range(30)])
    lines = patch_lines(told, "run-1")
    assert len(lines) == 1 + 2 * 20 + 3
    assert "  and 10 more, in the same directory" in lines
    told = Application(refused=[refused(number) for number in range(300)], problem="no")
    assert max(map(len, patch_lines(told, "run-1"))) < 400


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "project")
    made.write("x")
    made.commit()
    return made


def checked(repository: Repository, *, worktree: bool) -> Checked:
    made = Checked.__new__(Checked)
    object.__setattr__(made, "options", Options(worktree=worktree))
    object.__setattr__(made, "root", repository.top)
    return made


@pytest.fixture
def ledger(repository: Repository) -> object:
    made = new_ledger(repository.top / ".hmz-mp" / "runs")
    yield made
    made.close()


def test_worktrees_are_opened_only_if_every_turn_has_one(
    repository: Repository, ledger: Ledger
) -> None:
    trees = make_worktrees(checked(repository, worktree=False), ledger)
    assert trees.opened is None
    assert apply_run(trees, ledger, as_planned=True) == Application()
    trees = make_worktrees(checked(repository, worktree=True), ledger)
    assert trees.opened is not None
    assert apply_run(trees, ledger, as_planned=True) == Application()
    close_worktrees(trees)
    assert not repository.exists(".hmz-mp/worktrees")


def test_a_run_that_is_not_recorded_can_have_none(repository: Repository, ledger: Ledger) -> None:
    ledger.error = "the run is not being recorded in 'x': full"
    with pytest.raises(BadInput, match="worktrees need the run to be recorded, and the run is not"):
        make_worktrees(checked(repository, worktree=True), ledger)
    assert not repository.exists(".hmz-mp/worktrees")


def test_a_ledger_that_breaks_is_said(repository: Repository, ledger: Ledger) -> None:
    trees = make_worktrees(checked(repository, worktree=True), ledger)
    ledger.error = "the run is not being recorded in 'x': full"
    told = apply_run(trees, ledger, as_planned=True)
    assert (told.problem, told.complete) == (ledger.error, False)
    trees.close()


def test_what_could_not_be_removed_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = Worktrees(Path(), "run-1")
    monkeypatch.setattr(trees, "close", lambda: ["'x\x1b' could not be removed: no"])
    close_worktrees(trees)
    assert capsys.readouterr().err == (
        "warning: 'x\\x1b' could not be removed: no\ntry again to remove them: hmz-mp gc\n"
    )


def test_submodules_are_told() -> None:
    names = [f"lib/{number}" for number in range(7)]
    assert patching._about_submodules([]) == []
    assert patching._about_submodules(names) == [
        "warning: submodules are empty in worktrees: lib/0, lib/1, lib/2, lib/3, lib/4 and 2 more"
    ]
