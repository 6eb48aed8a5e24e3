from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends.acp import files
from hmz_mp_worker.backends.acp.agent import Declined


def read(folder: Path, **params: Any) -> str:
    content = files.read(str(folder), {"path": "a.txt", **params})["content"]
    assert isinstance(content, str)
    return content


def declined(call: Any, *args: Any) -> Declined:
    with pytest.raises(Declined) as caught:
        call(*args)
    return caught.value


def test_a_text_comes_back_as_it_is(tmp_path: Path) -> None:
    text = "one\r\ntwo\n\n\N{SNOWMAN}"
    assert files.write(str(tmp_path), {"path": "new/a.txt", "content": text}) == {}
    assert (tmp_path / "new" / "a.txt").read_bytes() == text.encode()
    assert read(tmp_path, path=str(tmp_path / "new" / "a.txt")) == text


@pytest.mark.parametrize(
    ("line", "limit", "wanted"),
    [
        (None, None, "1\n2\n3\n"),
        (1, None, "1\n2\n3\n"),
        (2, None, "2\n3\n"),
        (2, 1, "2"),
        (None, 2, "1\n2"),
        (9, 2, ""),
        (0, 0, ""),
        ("x", None, "1\n2\n3\n"),
    ],
)
def test_some_lines(tmp_path: Path, line: Any, limit: Any, wanted: str) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    assert read(tmp_path, line=line, limit=limit) == wanted


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = str(tmp_path)
    missing = declined(files.read, here, {"path": "a.txt"})
    assert (missing.code, missing.message) == (-32002, f"there is no file {tmp_path / 'a.txt'}")
    (tmp_path / "a.txt").write_bytes(b"\xff")
    assert "no text in UTF-8" in declined(files.read, here, {"path": "a.txt"}).message
    os.mkfifo(tmp_path / "fifo")
    for odd in ("fifo", "."):
        assert "no regular file" in declined(files.read, here, {"path": odd}).message
    assert declined(files.read, here, {"path": "a.txt/b"}).code == -32603
    for path in (None, "", "a\0b", 3):
        assert declined(files.read, here, {"path": path}).code == -32602
    monkeypatch.setattr(files, "CEILING", 0)
    assert "more than 0 bytes" in declined(files.read, here, {"path": "a.txt"}).message


def test_what_cannot_be_written(tmp_path: Path) -> None:
    here = str(tmp_path)
    (tmp_path / "a.txt").write_text("as it was")
    assert declined(files.write, here, {"path": "a.txt"}).message == "there is no content"
    odd = declined(files.write, here, {"path": "a.txt", "content": "\udcff"})
    assert "no text in UTF-8" in odd.message
    assert (tmp_path / "a.txt").read_text() == "as it was"
    assert "no regular file" in declined(files.write, here, {"path": ".", "content": ""}).message
    below = declined(files.write, here, {"path": "a.txt/b", "content": ""})
    assert "cannot be written" in below.message
