from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hmz_mp_worker.backends.acp import files
from hmz_mp_worker.backends.acp.agent import Declined


def declined(folder: Path, **params: Any) -> Declined:
    with pytest.raises(Declined) as caught:
        files.write(str(folder), params)
    return caught.value


def test_a_text_is_written_as_it_is(tmp_path: Path) -> None:
    text = "one\r\ntwo\n\n\N{SNOWMAN}"
    assert files.write(str(tmp_path), {"path": "new/a.txt", "content": text}) == {}
    assert (tmp_path / "new" / "a.txt").read_bytes() == text.encode()
    where = str(tmp_path / "new" / "a.txt")
    files.write("/", {"path": where, "content": "x"})
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"x"


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("as it was")
    os.mkfifo(tmp_path / "fifo")
    for path in (None, "", "a\0b", 3):
        assert declined(tmp_path, path=path, content="x").code == -32602
    assert declined(tmp_path, path="a.txt").message == "there is no content"
    odd = declined(tmp_path, path="a.txt", content="\udcff")
    assert "no text in UTF-8" in odd.message
    assert (tmp_path / "a.txt").read_text() == "as it was"
    for name in (".", "fifo"):
        assert "no regular file" in declined(tmp_path, path=name, content="x").message
    below = declined(tmp_path, path="a.txt/b", content="x")
    assert (below.code, "cannot be written" in below.message) == (-32603, True)
