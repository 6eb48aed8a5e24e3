from __future__ import annotations

import os
from pathlib import Path

import pytest

from hmz_mp_worker.backends import Request
from hmz_mp_worker.backends.chat import attaching
from hmz_mp_worker.backends.chat.attaching import with_file
from hmz_mp_worker.backends.protocol import AgentFailed


def asked(folder: Path, name: bytes) -> str:
    return with_file(Request("Look.", path=name, cwd=str(folder)))


def test_a_turn_about_no_file() -> None:
    assert with_file(Request("Look.")) == "Look."


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_files_text_is_in_the_prompt(tmp_path: Path, end: str) -> None:
    (tmp_path / "a b.py").write_text(f"x = 1{end}")
    assert asked(tmp_path, b"a b.py") == 'Look.\n\n<file path="a b.py">\nx = 1\n</file>'


def test_an_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert "\nx\n" in asked(Path("/"), os.fsencode(tmp_path / "a"))


def test_odd_bytes(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"a\xff")).write_bytes(b"x\xff\n")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    assert asked(tmp_path, b"a\xff").endswith('"a\udcff">\nx\ufffd\n</file>')


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=r"refused: a cannot be read: No such file"):
        asked(tmp_path, b"a")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="cannot be read"):
        asked(tmp_path, b".")


def test_what_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x\0y")
    with pytest.raises(AgentFailed, match="is no text"):
        asked(tmp_path, b"a")


def test_what_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "LARGEST", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert "x" * 10 in asked(tmp_path, b"a")
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(AgentFailed, match="more than 10 bytes"):
        asked(tmp_path, b"a")
