"""The selection itself: where items come from, which are kept, and what is said of the rest.

Imported by ``hmz_mp.items`` only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from hmz_mp.core.ambient import Item
from hmz_mp.errors import BadInput
from hmz_mp.items.files import is_binary, regular_files
from hmz_mp.items.listing import read_items
from hmz_mp.items.patterns import Patterns
from hmz_mp.items.repository import Repository
from hmz_mp.items.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Selection", "select"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of a run, in order, and what is worth telling about how they were found.

    ``searched`` is a phrase such as "the git repository at '/src/x' (12,034 files)".
    ``warnings`` are lines about what could not be looked at.
    """

    items: list[Item]
    searched: str
    skipped_binary: int = 0
    warnings: list[str] = field(default_factory=list)


def select(
    root: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    changed_since: str | None = None,
    items_file: str | None = None,
    nul: bool = False,
    stdin: BinaryIO | None = None,
) -> Selection:
    """Return the items below ``root``, in the byte order of their paths, or as a list has them.

    In a git repository the files are those tracked and those untracked and not ignored; elsewhere
    a walk honours .gitignore files. Only regular files count: no submodules, no symbolic links.
    Files with a NUL byte in their first 8 KiB are skipped as binary.

    ``include`` and ``exclude`` are gitignore patterns; a file is kept if any of ``include``
    matches (or there is none) and none of ``exclude`` does. ``changed_since`` keeps the files
    that differ from where HEAD left that ref. ``items_file`` (``-``: standard input, or ``stdin``)
    lists items instead, see `read_items`; patterns then apply to those that are files, and binary
    files that are listed by name are kept.

    Raises `BadInput` when there is nothing to do, or nothing that can be understood.
    """
    wanted = _Filter(
        Patterns.from_option("--include", include), Patterns.from_option("--exclude", exclude)
    )
    if items_file is None:
        found = _search(root, wanted, changed_since)
    elif changed_since is not None:
        raise BadInput("--items and --changed-since cannot be used together")
    else:
        found = _listed(root, wanted, items_file, nul=nul, stdin=stdin)
    if not found.items:
        raise BadInput(_nothing(found, include, exclude))
    return found


@dataclass(frozen=True, slots=True)
class _Filter:
    include: Patterns | None
    exclude: Patterns | None

    def __call__(self, name: str) -> bool:
        if self.include is not None and not self.include.cover(name):
            return False
        return self.exclude is None or not self.exclude.cover(name)


def _listed(
    root: Path, wanted: _Filter, items_file: str, *, nul: bool, stdin: BinaryIO | None
) -> Selection:
    listed = read_items(root, items_file, nul=nul, stdin=stdin)
    source = "standard input" if items_file == "-" else repr(items_file)
    kept = [item for item in listed if item.path is None or wanted(item.item_id)]
    return Selection(kept, f"the list in {source} ({_counted(len(listed), 'item')})")


def _search(root: Path, wanted: _Filter, changed_since: str | None) -> Selection:
    if not root.is_dir():
        raise BadInput(f"{str(root)!r} is not a directory")
    warnings: list[str] = []
    names, place = _candidates(root, changed_since, warnings)
    base = os.fsencode(root.absolute())
    files = sorted(regular_files(base, names))
    items, binary = [], 0
    for path in files:
        name = os.fsdecode(path)
        if not wanted(name):
            continue
        if is_binary(base + b"/" + path):
            binary += 1
        else:
            items.append(Item(name, path=path))
    return Selection(items, f"{place} ({_counted(len(files), 'file')})", binary, warnings)


def _candidates(
    root: Path, changed_since: str | None, warnings: list[str]
) -> tuple[Iterable[bytes], str]:
    repository, reason = Repository.find(root)
    here = repr(str(root.absolute()))
    if repository is None:
        if changed_since is not None:
            why = f"not a git repository{f' that git can use: {reason}' if reason else ''}"
            raise BadInput(f"--changed-since {changed_since!r} needs git, and {here} is {why}")
        if reason and any((above / ".git").exists() for above in (root, *root.absolute().parents)):
            warnings.append(f"files were found without git: {reason}")
        return walk(root, warnings), f"the directory {here}"
    place = f"the git repository at {str(repository.top)!r}"
    if os.path.realpath(root) != os.path.realpath(repository.top):
        place = f"{here} in {place}"
    if changed_since is None:
        return repository.files(), place
    return repository.changed_since(
        changed_since
    ), f"what changed since {changed_since!r} in {place}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _nothing(found: Selection, include: Sequence[str], exclude: Sequence[str]) -> str:
    options = [f"--include {one!r}" for one in include] + [f"--exclude {one!r}" for one in exclude]
    under = f" with {' '.join(options)}" if options else ""
    binary = (
        f"; {_counted(found.skipped_binary, 'binary file')} skipped" if found.skipped_binary else ""
    )
    told = "".join(f"\n{line}" for line in found.warnings)
    return f"no items: searched {found.searched}{under}{binary}{told}"
