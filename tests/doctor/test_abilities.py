from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

from hmz_mp.doctor import abilities
from hmz_mp.doctor.abilities import Ability, look
from hmz_mp.errors import WorkerStartFailed


def found(here: Path, name: str) -> Ability:
    (one,) = [one for one in look(here) if one.name == name]
    return one


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool is tried once, in the first test."""

    def fails(*args: object, **options: object) -> object:
        raise WorkerStartFailed("no more processes")

    monkeypatch.setattr(abilities, "ProcessExecutor", fails)


def test_what_is_needed_works_here(tmp_path: Path) -> None:
    needed = [one for one in look(tmp_path) if one.needed]
    assert {one.name for one in needed} == {"workers", "shared memory"}
    assert all(one.works for one in needed), needed


@pytest.mark.usefixtures("no_workers")
def test_a_pool_that_cannot_start(tmp_path: Path) -> None:
    one = found(tmp_path, "workers")
    assert one.needed
    assert not one.works
    assert one.words.endswith("no more processes")


@pytest.mark.usefixtures("no_workers")
@pytest.mark.skipif(sys.platform != "linux", reason="what Linux has")
def test_what_linux_has(tmp_path: Path) -> None:
    assert found(tmp_path, "pidfd").works
    assert found(tmp_path, "orphans").works


@pytest.mark.usefixtures("no_workers")
def test_where_there_is_no_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert found(tmp_path, "pidfd")[1:3] == (False, "not here; ends are heard of by connections")


@pytest.mark.usefixtures("no_workers")
def test_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    one = found(tmp_path, "open files")
    assert one[1:3] == (
        False,
        "256 at once (at most no limit); wide runs want more: ulimit -n 4096",
    )


@pytest.mark.usefixtures("no_workers")
def test_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not found(tmp_path, "ledger").works


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize(
    ("script", "works", "words"),
    [
        ("echo git version 2.39.5", True, "2.39.5, "),
        ("echo 'git version 2.50.1 (Apple Git-155)'", True, "2.50.1, "),
        ("echo git version 2.30.2", False, "2.30.2; --worktree needs 2.33 or later"),
        ("exit 4", False, "ended with status 4"),
        (None, False, "not found; --changed-since and --worktree need it"),
    ],
)
def test_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, works: bool, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o755)
    one = found(tmp_path, "git")
    assert one.works == works
    assert words in one.words
