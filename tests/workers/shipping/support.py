"""Setups and parcels for tests of copies."""

from __future__ import annotations

from pathlib import Path

from hmz_mp_worker.shipping.parcels import PLAIN, Declared, Parcel, SentFile, Setup, encode

IGNORING = SentFile(b".gitignore", PLAIN, b"*.ignored\n")


def files(**contents: str) -> list[SentFile]:
    """Return plain files called as the arguments are, with ``__`` for a slash, in ``.txt``."""
    return [
        SentFile(f"{name.replace('__', '/')}.txt".encode(), PLAIN, content.encode())
        for name, content in contents.items()
    ]


def setup_in(tmp_path: Path, inside: str = "", hashes: str = "sha1") -> Setup:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Setup("the run", str(home), inside, b"*.excluded\n", hashes)


def declaring(*sent: SentFile) -> Declared:
    return Declared(encode(Parcel(list(sent))))
