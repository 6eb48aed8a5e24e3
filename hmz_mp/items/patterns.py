"""gitignore patterns over any file name. Imported by the rest of ``hmz_mp.items`` only.

pathspec reads each pattern; the verdict over several is git's: directories are decided before
what is in them, and the last pattern that matches a name itself decides it. pathspec's own
verdict takes a file alone, and differs from git's once patterns un-ignore directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathspec import GitIgnoreSpec

from hmz_mp.errors import BadInput
from hmz_mp.items.directories import Inherited

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pathspec.pattern import Pattern

__all__ = ["Patterns"]

# pathspec's regular expressions use `.` and `$`, which treat a newline inside a name as special.
# No name and no pattern holds NUL, so it stands in for the newline.
_NEWLINE, _STAND_IN = "\n", "\0"


class _Rule:
    """One pattern, asked about one name at a time and never about what is above it."""

    __slots__ = ("directories_only", "ignores", "pattern")

    def __init__(self, line: str) -> None:
        self.directories_only = line.rstrip().endswith("/")
        self.pattern = _parsed(line.rstrip().removesuffix("/") if self.directories_only else line)
        self.ignores = bool(self.pattern.include)

    def matches(self, name: str, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        found = self.pattern.match_file(name)
        # This group is set when the pattern matched a directory above `name`.
        return found is not None and found.match.groupdict().get("ps_d") is None


def _parsed(line: str) -> Pattern:
    for pattern in GitIgnoreSpec.from_lines([line.replace(_NEWLINE, _STAND_IN)]).patterns:
        if pattern.include is not None:
            return pattern
    raise ValueError(f"{line!r} is blank, a comment, or can match nothing")


class Patterns:
    """What a .gitignore with these lines would ignore, relative to where it is."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._latest_first = tuple(rules)[::-1]
        self._covered = Inherited("", "/", self._covers_directory)

    @classmethod
    def from_option(cls, option: str, patterns: Sequence[str]) -> Patterns | None:
        """Return the patterns given with ``option``, or ``None`` if there are none.

        Raises `BadInput` for a pattern that can match nothing.
        """
        rules = []
        for pattern in patterns:
            try:
                rules.append(_Rule(pattern))
            except ValueError:
                raise BadInput(
                    f"{option} {pattern!r} is not a gitignore pattern that can match a file; "
                    f"write one like '*.py' or 'docs/'"
                ) from None
        return cls(rules) if rules else None

    @classmethod
    def from_file(cls, text: str) -> Patterns:
        """Return the patterns of a .gitignore; lines that git would pass over are dropped."""
        rules = []
        for line in text.split("\n"):
            try:
                rules.append(_Rule(line.removesuffix("\r")))
            except ValueError:
                continue
        return cls(rules)

    def verdict(self, name: str, *, is_directory: bool = False) -> bool | None:
        """Return whether ``name`` is ignored, un-ignored, or (``None``) not spoken of."""
        name = name.replace(_NEWLINE, _STAND_IN)
        for rule in self._latest_first:
            if rule.matches(name, is_directory):
                return rule.ignores
        return None

    def cover(self, name: str) -> bool:
        """Return whether the file ``name``, or a directory it is in, is ignored."""
        return self._covered.above(name) or bool(self.verdict(name))

    def _covers_directory(self, name: str) -> bool:
        return bool(self.verdict(name, is_directory=True))
