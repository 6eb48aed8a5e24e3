"""Items that the user lists, in a file or on standard input.

Imported by ``hmz_mp.items`` only.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO

from hmz_mp.core.ambient import Item
from hmz_mp.errors import BadInput
from hmz_mp.items.files import is_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_items"]


def read_items(root: Path, source: str, *, nul: bool, stdin: BinaryIO | None) -> list[Item]:
    """Return the items listed in the file ``source`` (``-`` is standard input), in its order.

    There is one per line, or with ``nul`` one per NUL; blank ones are passed over. One that
    names a regular file below ``root`` is that file, however its path was written; any other is
    a record, whose text is its id. Raises `BadInput` for a list that cannot be read and for an
    item that is listed twice.
    """
    seen: dict[str, bytes] = {}
    items = []
    for entry in _entries(root, source, nul=nul, stdin=stdin):
        item = _item(os.fsencode(root.absolute()), entry)
        if item.item_id in seen:
            other = seen[item.item_id]
            spelled = "" if other == entry else f" (as {os.fsdecode(other)!r} before)"
            raise BadInput(
                f"--items {source}: {os.fsdecode(entry)!r} is listed twice{spelled}; "
                f"each item needs an id of its own"
            )
        seen[item.item_id] = entry
        items.append(item)
    return items


def _entries(root: Path, source: str, *, nul: bool, stdin: BinaryIO | None) -> list[bytes]:
    content = _content(root, source, stdin).removeprefix(b"\xef\xbb\xbf")
    if nul:
        entries = content.split(b"\0")
    else:
        entries = [line.removesuffix(b"\r") for line in content.split(b"\n")]
        if any(b"\0" in entry for entry in entries):
            raise BadInput(f"--items {source} holds NUL bytes; is -0 missing?")
    return [entry for entry in entries if entry.strip()]


def _content(root: Path, source: str, stdin: BinaryIO | None) -> bytes:
    try:
        if source == "-":
            return (stdin or sys.stdin.buffer).read()
        return (root / source).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"cannot read --items {source!r}: {reason}") from error


def _item(root: bytes, entry: bytes) -> Item:
    path = os.path.normpath(entry if entry.startswith(b"/") else root + b"/" + entry)
    below = os.path.relpath(path, root)
    if below != b".." and not below.startswith(b"../") and is_file(path):
        return Item(os.fsdecode(below), path=below)
    return Item(os.fsdecode(entry), text=os.fsdecode(entry))
