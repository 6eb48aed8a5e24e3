"""What a flow's file says of itself, read without running it.

Owns the reading. The command line imports this module. Only what the file spells out is seen:
functions whose decorator is named ``flow``. What can be run is for ``loading`` to say.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hmz_mp.flows.finding import file_of, flow_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hmz_mp.flows.finding import Place

__all__ = ["Described", "Listed", "describe", "listed"]


@dataclass(frozen=True, slots=True)
class Described:
    """One flow: its name, its agents' annotation as written, and the first line about it."""

    name: str
    agents: str
    summary: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One file that a name means: where it is, and what is in it.

    ``hidden`` says that the same name means another file, which is found first. ``problem`` is
    why the file could not be read, else empty.
    """

    name: str
    path: Path
    place: Place
    hidden: bool
    flows: tuple[Described, ...]
    problem: str = ""


def listed(searched: list[Place]) -> Iterator[Listed]:
    """Yield every file of the folders, in the order in which a name is looked for."""
    seen: set[str] = set()
    for place in searched:
        for name in flow_names(place):
            path = file_of(place, name)
            flows, problem = _described(path)
            yield Listed(name, path, place, name in seen, flows, problem)
            seen.add(name)


def _described(path: Path) -> tuple[tuple[Described, ...], str]:
    try:
        return tuple(describe(path.read_bytes())), ""
    except OSError as error:
        return (), f"cannot be read: {error.strerror}"
    except SyntaxError as error:
        return (), f"is no Python: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return (), f"is no Python: {error}"


def describe(source: bytes) -> Iterator[Described]:
    """Yield the flows that a file's source marks. Raises `SyntaxError` and `ValueError`."""
    module = ast.parse(source)
    about = _first_line(module)
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if _last_name(decorator) == "flow":
                    name = _given_name(decorator) or node.name
                    yield Described(name, _agents(node), _first_line(node) or about)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _given_name(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                return str(keyword.value.value)
    return ""


def _agents(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
    return ast.unparse(first.annotation) if first is not None and first.annotation else ""


def _first_line(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node) or ""
    return text.strip().partition("\n")[0]
