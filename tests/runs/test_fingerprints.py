import os
from pathlib import Path

import pytest

from hmz_mp.runs import fingerprints as module
from hmz_mp.runs.fingerprints import GONE, fingerprint_of, is_as_before, place_of

from .support import turn


@pytest.fixture
def file(tmp_path: Path) -> bytes:
    (tmp_path / "a.py").write_text("one")
    return os.fsencode(tmp_path / "a.py")


def test_a_file_that_is_let_alone(file: bytes) -> None:
    before = fingerprint_of(file)
    assert is_as_before(file, before)


def test_a_file_that_is_touched_or_written_again_alike(file: bytes) -> None:
    before = fingerprint_of(file)
    os.utime(file, (1, 1))
    assert is_as_before(file, before)
    Path(os.fsdecode(file)).unlink()
    Path(os.fsdecode(file)).write_text("one")
    assert is_as_before(file, before)


def test_a_file_that_is_changed_or_gone(file: bytes) -> None:
    before = fingerprint_of(file)
    Path(os.fsdecode(file)).write_text("two")
    assert not is_as_before(file, before)
    Path(os.fsdecode(file)).unlink()
    assert not is_as_before(file, before)
    assert fingerprint_of(file) == GONE
    assert is_as_before(file, GONE)


def test_of_a_large_file_size_and_times_tell(file: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ", 2)
    before = fingerprint_of(file)
    assert before.endswith(":")
    assert is_as_before(file, before)
    os.utime(file, (1, 1))
    assert not is_as_before(file, before)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert is_as_before(os.fsencode(path), fingerprint_of(os.fsencode(path)))


def test_nothing_was_noted(file: bytes) -> None:
    assert not is_as_before(file, "")


def test_where_the_file_of_a_turn_is() -> None:
    assert place_of(turn(0)) is None
    assert place_of(turn(0, path=b"\xff.py")) == b"\xff.py"
    assert place_of(turn(0, path=b"a/\xff.py", cwd="/x")) == b"/x/a/\xff.py"
    assert place_of(turn(0, path=b"/abs.py", cwd="/x")) == b"/abs.py"
