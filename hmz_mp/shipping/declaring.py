"""Which files go with every turn: those that the user names, and the code that answers.

Imported by ``hmz_mp.shipping`` only.
"""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp.items.patterns import Patterns
from hmz_mp.shipping.base import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hmz_mp.shipping.base import Base

__all__ = ["OPTION", "code_names", "named_by"]

OPTION = "--ship-also"


def named_by(patterns: Sequence[str], base: Base, inside: str) -> Iterator[bytes]:
    """Yield the files that gitignore patterns name, seen from ``inside``.

    Raises `BadInput` for a pattern that names none.
    """
    start = os.fsencode(f"{inside}/") if inside else b""
    here = [
        (name, os.fsdecode(name[len(start) :])) for name in base.names if name.startswith(start)
    ]
    for pattern in patterns:
        if not pattern.startswith("!"):
            one = Patterns.from_option(OPTION, [pattern])
            assert one is not None
            if not any(one.cover(shown) for _, shown in here):
                raise BadInput(
                    f"{OPTION} {pattern!r} names no file here that git knows or does not ignore"
                )
    wanted = Patterns.from_option(OPTION, patterns)
    if wanted is not None:
        yield from (name for name, shown in here if wanted.cover(shown))


def code_names(files: Iterable[str], base: Base, top: str) -> Iterator[bytes]:
    """Yield those of ``files`` that the checkout has; of a package's module, all of the package."""
    for file in files:
        name = below(top, file)
        if name is None or name not in base:
            continue
        yield name
        package = b""
        above = posixpath.dirname(name)
        while above and posixpath.join(above, b"__init__.py") in base:
            package, above = above, posixpath.dirname(above)
        if package:
            yield from (one for one in base.names if one.startswith(package + b"/"))


def below(top: str, path: str) -> bytes | None:
    """Return a path as one from ``top``, empty for ``top`` itself; ``None`` for one elsewhere."""
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(top))
    if relative == "..":
        return None
    name = name_of("", os.fsencode(relative))
    if name.startswith(b"../"):
        return None
    return b"" if name == b"." else name
