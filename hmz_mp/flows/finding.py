"""Which file a flow's name means.

Owns the search. ``loading`` and the command line may import this module; it reads directories
and never runs what it finds.

A flow is written as a path (``flows/plan.py``, a folder with ``__init__.py``) or as a name. A
name is looked for in ``.humanize/flows`` of the project, which is the start directory and its
parents up to the top of its repository, then in ``.humanize/flows`` of the home directory, then
among the built-in ones: a user's own ``fanout`` is meant when there is one. After either,
``:NAME`` picks one of several flows of the file.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from hmz_mp.errors import BadInput
from hmz_mp.terminal import printable

__all__ = ["Found", "Place", "file_of", "find_flow", "flow_names", "places"]

BUILT_IN = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that may hold flows; ``label`` is what messages call it."""

    folder: Path
    label: str


@dataclass(frozen=True, slots=True)
class Found:
    """A flow's file, and which of its flows was asked for (``None``: its only one)."""

    path: Path
    name: str | None


def places(start: Path, home: Path) -> list[Place]:
    """Return where flows are looked for by name, first to last."""
    project = [_own(folder) for folder in _up_to_repository_top(start.absolute())]
    users = [] if home.absolute() in (place.folder.parent.parent for place in project) else [home]
    return [*project, *(_own(folder.absolute()) for folder in users), Place(BUILT_IN, "built in")]


def _own(folder: Path) -> Place:
    flows = folder / ".humanize" / "flows"
    return Place(flows, str(flows))


def _up_to_repository_top(start: Path) -> list[Path]:
    folders = [start, *start.parents]
    for count, folder in enumerate(folders, 1):
        if _is_repository(folder):
            return folders[:count]
    return [start]


def _is_repository(folder: Path) -> bool:
    """Whether git would take ``folder`` for one: sandboxes leave empty ``.git`` folders around."""
    git = folder / ".git"
    return git.is_file() or (git / "HEAD").exists()


def flow_names(place: Place) -> list[str]:
    """Return the names of the flows in one folder, sorted."""
    try:
        entries = list(place.folder.iterdir())
    except OSError:
        return []
    modules = {entry.stem for entry in entries if entry.suffix == ".py"} - {"__init__"}
    packages = {entry.name for entry in entries if _is_file(entry / "__init__.py")}
    return sorted(modules | packages)


def file_of(place: Place, name: str) -> Path:
    """Return the file that one of the `flow_names` of a folder means."""
    first, *others = _at(place.folder / name)
    return next((path for path in (first, *others) if _is_file(path)), first)


def find_flow(spec: str, *, start: Path | None = None, home: Path | None = None) -> Found:
    """Return the file that ``spec`` means.

    Raises `BadInput` when there is none, saying where it was looked for and what is there.
    """
    start = Path.cwd() if start is None else start
    home = Path.home() if home is None else home
    searched = places(start, home)
    for text, name in _readings(spec):
        candidates = (
            _at(start / Path(text).expanduser())
            if _is_path(text)
            else [path for place in searched for path in _at(place.folder / text)]
        )
        for path in candidates:
            if _is_file(path):
                return Found(path, name)
    raise BadInput(_not_found(spec, searched))


def _readings(spec: str) -> list[tuple[str, str | None]]:
    whole: list[tuple[str, str | None]] = [(spec, None)] if spec else []
    file, colon, name = spec.rpartition(":")
    return [*whole, (file, name)] if colon and file and name else whole


def _is_path(text: str) -> bool:
    return "/" in text or text.endswith(".py") or text in {".", "..", "~"}


def _at(path: Path) -> list[Path]:
    own = [path] if path.suffix == ".py" else [path.with_name(path.name + ".py")]
    return [*own, path / "__init__.py"] if path.name else [path / "__init__.py"]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder that may not be read
        return False


def _not_found(spec: str, searched: list[Place]) -> str:
    text = spec.partition(":")[0]
    if _is_path(text):
        return f"no flow at {printable(text)}: it is neither a Python file nor a folder of one"
    known = {name: place for place in reversed(searched) for name in flow_names(place)}
    lines = [f"no flow named '{printable(text)}'"]
    if close := difflib.get_close_matches(text, known, n=1):
        lines[0] += f" (did you mean '{printable(close[0])}'?)"
    lines[0] += "; looked in:"
    for place in searched:
        names = ", ".join(printable(name) for name in flow_names(place)) or "none"
        lines.append(f"  {printable(place.label)}: {names}")
    lines.append("a flow of your own is run by its path: -f ./my_flow.py")
    return "\n".join(lines)
