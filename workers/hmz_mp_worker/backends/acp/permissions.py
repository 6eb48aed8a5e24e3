"""What an agent may do in its directory, by the kind of what it wants to do.

Owns the rungs. Nothing is asked of anybody: what is not permitted is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hmz_mp_worker.backends.acp.settings import Permission, Settings

__all__ = ["CANCELLED", "Call", "Rules", "chosen"]

_READS = frozenset({"read", "search", "think"})
_WRITES = frozenset({"edit", "delete", "move"})
_FILES = _WRITES | {"read"}
_RUNGS: dict[Permission, frozenset[str]] = {
    "read-only": _READS,
    "workspace-write": _READS | _WRITES,
    "auto": _READS | _WRITES,  # what the program's own classifier leaves to be asked
}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
_WORDS = 120


class Call(NamedTuple):
    """A use of a tool, as far as the program has said what it is."""

    kind: str = "other"
    title: str = ""
    paths: tuple[str, ...] = ()
    status: str = ""

    def updated(self, said: dict[str, Any]) -> Call:
        """Return it with what a message says of it."""
        kind, title, status = said.get("kind"), said.get("title"), said.get("status")
        return Call(
            kind if isinstance(kind, str) else self.kind,
            title if isinstance(title, str) and title.strip() else self.title,
            _paths(said) or self.paths,
            status if isinstance(status, str) else self.status,
        )

    @property
    def words(self) -> str:
        """What it is, on one line."""
        words = f"{self.kind} {self.title}"
        if self.kind in _FILES and self.paths and Path(self.paths[0]).name not in words:
            words = f"{words} {self.paths[0]}"
        return " ".join(words.split())[:_WORDS]


def _paths(said: dict[str, Any]) -> tuple[str, ...]:
    """Return the files that a message names: where the tool works, and what it would change."""
    found: dict[str, None] = {}
    for key in ("locations", "content"):
        listed = said.get(key)
        for one in listed if isinstance(listed, list) else []:
            path = one.get("path") if isinstance(one, dict) else None
            if isinstance(path, str) and path:
                found[path] = None
    return tuple(found)


class Rules:
    """What one agent may do in one directory."""

    def __init__(self, settings: Settings, cwd: str) -> None:
        self._cwd = Path(cwd)
        self._everything = settings.permission == "bypass"
        self._kinds = _RUNGS.get(settings.permission, _READS | _WRITES) | set(settings.allow)
        self._denied = frozenset(settings.deny)

    def permit(self, kind: str, paths: Iterable[str]) -> bool:
        """Tell whether a tool of this kind may be used on these files.

        Only in the directory, whatever the kind; a tool that writes has to say where.
        """
        if kind in self._denied:
            return False
        if self._everything:
            return True
        paths = tuple(paths)
        return (
            kind in self._kinds
            and all(self.is_inside(path) for path in paths)
            and bool(paths or kind not in _WRITES)
        )

    def forbid(self, call: Call) -> bool:
        """Tell whether a file was changed that may not be, by a tool that nobody was asked about.

        Only what is certain: of a tool that says no files, nothing is known.
        """
        return call.kind in _WRITES and bool(call.paths) and not self.permit(call.kind, call.paths)

    def is_inside(self, path: str) -> bool:
        """Tell whether a file is in the directory, once links are followed."""
        try:
            return (self._cwd / path).resolve().is_relative_to(self._cwd.resolve())
        except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL
            return False


def chosen(options: Any, *, permitted: bool) -> dict[str, Any]:
    """Return the answer to a question: this once, rather than for ever."""
    wanted = ("allow_once", "allow_always") if permitted else ("reject_once", "reject_always")
    for kind in wanted:
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("kind") == kind and option.get("optionId"):
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return CANCELLED
