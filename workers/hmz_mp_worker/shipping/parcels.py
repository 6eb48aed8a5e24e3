"""What goes with a turn: files, as git has them, and how they are written down.

Imported by the coordinator too, which fills parcels.
"""

from __future__ import annotations

import hashlib
import os
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "EXECUTABLE",
    "LINK",
    "PLAIN",
    "Declared",
    "Parcel",
    "SentFile",
    "Setup",
    "content_of",
    "declared",
    "decode_parcel",
    "decode_setup",
    "encode",
    "named",
    "write_file",
]

PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"  # modes, as git has them


class SentFile(msgspec.Struct, frozen=True, array_like=True):
    """One file: its name below the top of the checkout, its mode, and what is in it.

    A link's content is where it leads to.
    """

    name: bytes
    mode: str
    content: bytes

    @property
    def path(self) -> str:
        """Its name, as paths are made of it."""
        return os.fsdecode(self.name)


class Parcel(msgspec.Struct, frozen=True):
    """The files of one turn, or why there are none: its ``problem``."""

    files: list[SentFile] = []
    problem: str = ""


class Setup(msgspec.Struct, frozen=True):
    """What the copies of one run have in common.

    Copies are made below ``home``, or, where that is empty, below the directory that the worker's
    engine has for such things, in one called ``label``. ``inside`` is the directory, relative to
    the top, that turns run in; ``excludes`` what git's settings ignore beside the ``.gitignore``
    files; ``hashes`` the names that git gives to contents, ``sha1`` or ``sha256``.
    """

    label: str
    home: str = ""
    inside: str = ""
    excludes: bytes = b""
    hashes: str = "sha1"


class Declared:
    """The files that go with every turn."""

    def __init__(self, data: bytes) -> None:
        self.files = decode_parcel(data).files
        self.digest = hashlib.blake2b(data, digest_size=12).hexdigest()


encode = msgspec.msgpack.Encoder().encode
decode_parcel = msgspec.msgpack.Decoder(Parcel).decode
decode_setup = cache(msgspec.msgpack.Decoder(Setup).decode)
declared = cache(Declared)  # read once in each worker


def write_file(top: str, file: SentFile) -> None:
    """Write a file below ``top``, where nothing is in its place."""
    path = Path(top, file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.mode == LINK:
        path.symlink_to(os.fsdecode(file.content))
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o777 if file.mode == EXECUTABLE else 0o666), "wb") as to:
        to.write(file.content)


def content_of(path: Path) -> tuple[str, bytes] | None:
    """Return a file's mode and what is in it, as git would have them; ``None`` for no file."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return LINK, os.fsencode(path.readlink())
        if stat.S_ISREG(mode):
            return (EXECUTABLE if mode & 0o100 else PLAIN), path.read_bytes()
    except OSError:
        pass
    return None


def named(files: Iterable[SentFile]) -> dict[bytes, SentFile]:
    """Return files by name."""
    return {file.name: file for file in files}
