from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from hmz_mp.runs import runs_directory
from hmz_mp.runs.patches import PatchJournal
from hmz_mp.worktrees.checkout import Checkout
from hmz_mp.worktrees.home import Home
from hmz_mp.worktrees.writing import Writer
from hmz_mp_worker.worktrees.worktree import Worktree
from tests.runs.support import new_ledger, turn
from tests.worktrees.support import Repository, setup_of

from .support import hmz_mp


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository in which a run has ended without its two patches being applied."""
    repository = Repository(tmp_path / "project")
    repository.write("a.txt", "one\ntwo\n")
    repository.commit()
    monkeypatch.chdir(repository.top)
    setup = setup_of(repository, tmp_path / "home")
    with closing(new_ledger(runs_directory(repository.top))) as ledger:
        for number, name in enumerate(("a.txt", "new.txt")):
            worktree = Worktree.take(setup)
            Path(worktree.directory, name).write_text("edited\n")
            record = turn(number, name, state="ok", session=f"s{number}")
            record.patch = worktree.patch()
            worktree.give_back()
            ledger.put(record)
        ledger.finish("interrupted", 130, {})
        with PatchJournal(ledger.directory) as journal:
            journal.note_checkout(Checkout.find(repository.top), repository.head)
    shutil.rmtree(setup.home)
    return repository


def test_what_is_left_is_applied(repository: Repository) -> None:
    done = hmz_mp("apply", "last")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "2 patches applied to the checkout\n"
    assert repository.read("a.txt") == repository.read("new.txt") == b"edited\n"
    assert repository.staged() == b""
    assert not repository.exists(".hmz-mp/worktrees")
    again = hmz_mp("apply", "last")
    assert (again.exit_code, again.stderr) == (0, "there is nothing to apply\n")
    told = json.loads(hmz_mp("apply", "last", "--json").stdout)
    assert (told["applied"], told["already"], told["not_applied"]) == (0, 2, [])


def test_a_checkout_that_is_not_there_any_more(repository: Repository) -> None:
    (repository.top / ".git").rename(repository.top / "elsewhere")
    done = hmz_mp("apply", "last")
    assert done.exit_code == 2
    assert "is not there any more" in done.stderr


def test_somebody_else_is_at_it(repository: Repository) -> None:
    (run,) = runs_directory(repository.top).iterdir()
    home = Home(repository.top, run.name, Checkout.find(repository.top))
    done = hmz_mp("apply", "last")
    assert done.exit_code == 2
    assert "are being applied already" in done.stderr
    home.remove()


def test_ctrl_c(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(writer: Writer, changes: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "write", interrupted)
        done = hmz_mp("apply", "last")
    assert done.exit_code == 130
    assert "patches were not applied: interrupted\n2 patches waiting" in done.stderr
    assert repository.status() == set()
    assert not repository.exists(".hmz-mp/worktrees")
    assert hmz_mp("apply", "last").exit_code == 0


def test_a_damaged_ledger(repository: Repository) -> None:
    (run,) = runs_directory(repository.top).iterdir()
    with PatchJournal(run) as journal:
        journal._write("DROP TABLE patches")
    done = hmz_mp("apply", "last")
    assert done.exit_code == 2
    assert "cannot be used: no such table: patches" in done.stderr
