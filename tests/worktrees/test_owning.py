from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from hmz_mp.errors import BadInput
from hmz_mp.worktrees.owning import Ownership, owned_names, worktrees_directory


def test_only_one_has_it(tmp_path: Path) -> None:
    first = Ownership(tmp_path, "run")
    assert first.home == tmp_path / "run"
    with pytest.raises(BlockingIOError):
        Ownership(tmp_path, "run")
    with Ownership(tmp_path, "other"):
        pass
    first.release()
    first.release()
    with Ownership(tmp_path, "run"):
        pass


def test_what_it_is_about_is_found_later(tmp_path: Path) -> None:
    with Ownership(tmp_path, "run") as first:
        first.note(pid=1, top="/x\udcff")
    with Ownership(tmp_path, "run") as second:
        assert second.about == {"pid": 1, "top": "/x\udcff"}
        second.note(pid=2)
    with Ownership(tmp_path, "run") as third:
        assert third.about["pid"] == 2


def test_a_note_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text('{"pid": 1, "to')
    with Ownership(tmp_path, "run") as found:
        assert found.about == {}


def test_its_end_leaves_nothing(tmp_path: Path) -> None:
    directory = worktrees_directory(tmp_path)
    assert owned_names(directory) == []
    directory.mkdir(parents=True)
    one, two = Ownership(directory, "one"), Ownership(directory, "two")
    assert owned_names(directory) == ["one", "two"]
    one.end()
    assert owned_names(directory) == ["two"]
    two.end()
    assert not directory.exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    removed: list[bool] = []

    def late(lock: int, how: int) -> None:
        real(lock, how)
        if not removed:
            removed.append(True)
            (tmp_path / "run.lock").unlink()

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", late)
        owned = Ownership(tmp_path, "run")
    assert (tmp_path / "run.lock").exists()
    owned.release()


def test_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(lock: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuses)
        with pytest.raises(BadInput, match="cannot be locked, which worktrees need"):
            Ownership(tmp_path, "run")
