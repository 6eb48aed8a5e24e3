from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hmz_mp.agents import folders
from hmz_mp.agents.folders import Folder, left_behind

KILLED = """
import os, sys
from hmz_mp.agents.folders import Folder
kept = [Folder("chat"), Folder("homes")]
os.mkdir(kept[0].path)
print(*(one.path for one in kept), sep="\\n", flush=True)
os.kill(os.getpid(), 9) if sys.argv[1:] else None
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def names(temporary: Path, *arguments: str) -> list[Path]:
    """Return the folders of a process that has ended, killed if there are arguments."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    return [Path(line) for line in ran.stdout.splitlines()]


def test_a_folder_goes_with_its_object(temporary: Path) -> None:
    chat, homes = Folder("chat"), Folder("homes")
    assert not Path(chat.path).exists()  # a worker makes it
    assert stat.S_IMODE(Path(homes.path).stat().st_mode) == 0o700
    Path(homes.path, "x").touch()
    Path(chat.path).mkdir()
    assert list(left_behind()) == []
    del chat, homes
    assert list(temporary.iterdir()) == []


def test_a_process_takes_its_own_along(temporary: Path) -> None:
    made = names(temporary)
    assert len(made) == 2
    assert not any(one.exists() for one in made)


def test_a_fork_of_it_does_not(temporary: Path) -> None:
    homes = Folder("homes")
    folders._remove(homes.path, os.getpid() + 1)
    assert Path(homes.path).exists()


def test_what_a_killed_process_left_is_found(temporary: Path) -> None:
    made = names(temporary, "killed")
    mine = Folder("homes")
    assert sorted(left_behind()) == sorted(made)
    assert mine.path not in map(str, left_behind())
    for one in made:
        folders.remove(one)
    assert list(temporary.iterdir()) == [Path(mine.path)]


def test_what_is_not_known_to_be_left_is_let_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, homes = names(temporary, "killed")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(folders, "_namespace", lambda: 1)
        assert list(left_behind()) == []
    with monkeypatch.context() as another:
        another.setattr(os, "getuid", lambda: 12345)
        assert list(left_behind()) == []
    chat.rmdir()
    chat.symlink_to(temporary)
    homes.rename(homes.with_name("hmz-mp-homes-mine"))
    assert list(left_behind()) == []


def test_without_a_directory_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/place")
    assert list(left_behind()) == []
