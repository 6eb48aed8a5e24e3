"""What a patch says of the files it changes, read from the lines before its text.

Pure. A patch is what ``git diff-index --patch-with-raw`` prints: a line for each file, with the
blobs before and after, an empty line, and then the patch that ``git apply`` takes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Change", "Entry", "changes_of", "is_safe", "text_of", "unquoted"]

_NONE = "000000"
_SUBMODULE = "160000"
_LINE = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*\t")
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))")
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f"}
_LETTERS |= {b"r": b"\r", b'"': b'"', b"\\": b"\\"}


class Entry(NamedTuple):
    """A file as git has it: its mode, as six digits, and its blob."""

    mode: str
    blob: str


class Change(NamedTuple):
    """What becomes of one path; ``None`` is a file that is not there."""

    path: bytes
    before: Entry | None
    after: Entry | None


def changes_of(patch: bytes) -> list[Change]:
    """Return the changes in a patch, a renamed file as one that goes and one that comes.

    Raises `ValueError` for what is no patch of ours.
    """
    changes: dict[bytes, Change] = {}

    def note(path: bytes, before: Entry | None, after: Entry | None) -> None:
        if path in changes:  # a file that goes where another comes
            before, after = changes[path].before or before, changes[path].after or after
        changes[path] = Change(path, before, after)

    for line in patch.partition(b"\n\n")[0].split(b"\n") if patch else []:
        head = _LINE.match(line)
        if head is None:
            raise ValueError(f"this is no patch: it says {line[:80]!r} of a file")
        modes = head[1].decode(), head[2].decode()
        if _SUBMODULE in modes:
            continue
        names = [unquoted(name) for name in line[head.end() :].split(b"\t")]
        before = Entry(modes[0], head[3].decode()) if modes[0] != _NONE else None
        after = Entry(modes[1], head[4].decode()) if modes[1] != _NONE else None
        kind = head[5]
        if kind == b"R":
            note(names[0], before, None)
            note(names[1], None, after)
        elif kind == b"C":
            note(names[1], None, after)
        else:
            note(names[0], before, after)
    return list(changes.values())


def text_of(patch: bytes) -> bytes:
    """Return what ``git apply`` takes of a patch."""
    return patch.partition(b"\n\n")[2]


def unquoted(name: bytes) -> bytes:
    """Return a path as it is, of how git prints it."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(
        lambda match: bytes([int(match[1], 8)]) if match[1] else _LETTERS[match[2]], name[1:-1]
    )


def is_safe(path: bytes) -> bool:
    """Whether a path stays in the checkout and off its repository. git's own always do."""
    parts = path.split(b"/")
    return not any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts)
