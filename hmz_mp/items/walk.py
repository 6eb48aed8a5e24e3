"""The files below a directory that is no git repository, as git would see them.

Imported by ``hmz_mp.items`` only. Honours ``.gitignore`` files at every level, does not follow
symbolic links, and leaves ``.git`` and ``.hmz-mp`` alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hmz_mp.items.files import NEVER
from hmz_mp.items.patterns import Patterns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["walk"]


@dataclass(frozen=True, slots=True)
class _Directory:
    name: str  # relative to the start, with a slash at its end; "" is the start itself
    rules: tuple[tuple[int, Patterns], ...]  # deepest first, each with where it begins


def walk(start: Path, warnings: list[str]) -> Iterator[bytes]:
    """Yield every regular file that is not ignored, relative to ``start``, in no fixed order.

    A directory or a .gitignore that cannot be read adds a line to ``warnings``.
    """
    waiting = [_Directory("", ())]
    while waiting:
        directory = waiting.pop()
        entries = _entries(start, directory, warnings)
        directory = _with_own_rules(start, directory, entries, warnings)
        for entry in entries:
            if os.fsencode(entry.name) in NEVER:
                continue
            name = directory.name + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not _ignored(directory, name, is_directory=True):
                    waiting.append(_Directory(name + "/", directory.rules))
            elif entry.is_file(follow_symlinks=False) and not _ignored(directory, name):
                yield os.fsencode(name)


def _entries(start: Path, directory: _Directory, warnings: list[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(start / directory.name) as entries:
            return list(entries)
    except OSError as error:
        warnings.append(f"cannot list {directory.name or '.'!r}: {error.strerror}")
        return []


def _with_own_rules(
    start: Path, directory: _Directory, entries: list[os.DirEntry[str]], warnings: list[str]
) -> _Directory:
    for entry in entries:
        # git reads no .gitignore through a symbolic link either.
        if entry.name == ".gitignore" and entry.is_file(follow_symlinks=False):
            try:
                text = os.fsdecode((start / directory.name / entry.name).read_bytes())
            except OSError as error:
                warnings.append(f"cannot read {directory.name + entry.name!r}: {error.strerror}")
                return directory
            own = (len(directory.name), Patterns.from_file(text.removeprefix("\ufeff")))
            return _Directory(directory.name, (own, *directory.rules))
    return directory


def _ignored(directory: _Directory, name: str, *, is_directory: bool = False) -> bool:
    for begins, patterns in directory.rules:
        verdict = patterns.verdict(name[begins:], is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False
