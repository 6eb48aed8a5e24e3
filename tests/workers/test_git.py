from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from hmz_mp_worker.git import Git, GitFailed
from tests.worktrees.support import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / os.fsdecode(b"odd \xff\nname"))
    made.write("x")
    made.commit()
    return made


def test_lines_and_names(repository: Repository) -> None:
    git = Git(str(repository.top))
    assert git.line("rev-parse", "--show-toplevel") == str(repository.top)
    assert git.names("ls-files", "-z") == [b"x"]
    assert git.common == f"{repository.top}/.git"
    assert repr(git) == f"<Git {str(repository.top)!r}>"


def test_a_failure_says_what_git_said(repository: Repository) -> None:
    with pytest.raises(GitFailed, match=r"^git cat-file: Not a valid object name nothing$") as told:
        Git(str(repository.top)).run("cat-file", "-p", "nothing")
    assert told.value.returncode == 128
    again = pickle.loads(pickle.dumps(told.value))
    assert str(again) == str(told.value)
    with pytest.raises(GitFailed, match="git cat-file: it ended with status 1"):
        Git(str(repository.top)).run("cat-file", "-e", "0" * 40)


def test_the_environment_leads_nowhere_else(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=0")
    assert Git(str(repository.top)).names("ls-files", "-z") == [b"x"]


def test_another_index(repository: Repository, tmp_path: Path) -> None:
    before = repository.read(".git/index")
    git = Git(str(repository.top), index=str(tmp_path / "index"))
    git.run("update-index", "-z", "--add", "--stdin", stdin=b"x\0")
    assert git.names("ls-files", "-z") == [b"x"]
    assert repository.read(".git/index") == before


def test_told_its_repository_it_looks_for_no_other(repository: Repository, tmp_path: Path) -> None:
    (repository.top / "inner").mkdir()
    git = Git(str(repository.top / "inner"), git_dir=str(tmp_path / "none"))
    with pytest.raises(GitFailed, match="not a git repository"):
        git.run("status")
