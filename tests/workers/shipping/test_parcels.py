from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hmz_mp_worker.shipping.parcels import (
    EXECUTABLE,
    LINK,
    PLAIN,
    Parcel,
    SentFile,
    Setup,
    content_of,
    declared,
    decode_parcel,
    decode_setup,
    encode,
    write_file,
)

FILES = [
    SentFile(b"a.txt", PLAIN, b"one\n"),
    SentFile(b"deep/er/run", EXECUTABLE, b"#!/bin/sh\n"),
    SentFile(b"deep/link", LINK, b"er/run"),
    SentFile("emoji \N{OWL}\n\"'\\ ".encode() + b"\xff", PLAIN, bytes(range(256))),
    SentFile(b"empty", PLAIN, b""),
]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert decode_parcel(encode(Parcel(FILES, "no"))) == Parcel(FILES, "no")
    setup = Setup("a", "/home", "in/side", b"x\xff", "sha256")
    assert decode_setup(encode(setup)) == setup


@pytest.mark.parametrize("file", FILES, ids=lambda file: ascii(file.path))
def test_a_file_is_as_it_was_sent(tmp_path: Path, file: SentFile) -> None:
    write_file(str(tmp_path), file)
    assert content_of(tmp_path / file.path) == (file.mode, file.content)


def test_modes_are_the_umask_s(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for file in FILES[:2]:
            write_file(str(tmp_path), file)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / file.path).stat().st_mode) for file in FILES[:2]]
    assert modes == [0o640, 0o750]


def test_nothing_is_written_over_or_through_what_is_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.txt").symlink_to(outside)
    with pytest.raises(FileExistsError):
        write_file(str(top), FILES[0])
    assert outside.read_text() == "mine"


def test_what_is_no_file_has_no_content(tmp_path: Path) -> None:
    assert content_of(tmp_path) is None
    assert content_of(tmp_path / "nothing") is None
    os.mkfifo(tmp_path / "pipe")
    assert content_of(tmp_path / "pipe") is None


def test_declared_files_are_read_once() -> None:
    data = encode(Parcel(FILES))
    assert declared(data) is declared(bytes(data))
    assert declared(data).files == FILES
    assert declared(encode(Parcel())).digest != declared(data).digest
