from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hmz_mp.core.ambient import run_variable
from hmz_mp.dispatch.keeping import Keeper
from tests.agents.conftest import FakeRun


def test_texts_have_files_of_their_own(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "new" / "folder")
    first, second = (Path(keeper.keep("tool", text)) for text in ("one", "two ü"))
    assert first != second
    assert (first.read_text(), second.read_text(encoding="utf-8")) == ("one", "two ü")
    assert first.parent == tmp_path / "new" / "folder"
    assert first.name.startswith("tool-")
    assert stat.S_IMODE(first.stat().st_mode) == 0o600


def test_without_a_run_they_are_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keeper = Keeper()
    first = Path(keeper.keep("tool", "one"))
    assert first.parent.parent == tmp_path
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    first.unlink()
    first.parent.rmdir()
    assert Path(keeper.keep("tool", "two")).read_text() == "two"


def test_in_a_run_it_is_without_secrets(tmp_path: Path) -> None:
    token = run_variable.set(FakeRun(None, directory=tmp_path))
    try:
        kept = Path(Keeper().keep("tool", "the secret is kept"))
    finally:
        run_variable.reset(token)
    assert kept.parent == tmp_path / "results"
    assert kept.read_text() == "the *** is kept"


def test_a_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    token = run_variable.set(FakeRun(None, directory=tmp_path / "file" / "run"))
    try:
        kept = Keeper(tmp_path / "file").keep("tool", "text")
    finally:
        run_variable.reset(token)
    assert Path(kept).read_text() == "text"
    assert Path(kept).parent.name.startswith("hmz-mp-results-")
