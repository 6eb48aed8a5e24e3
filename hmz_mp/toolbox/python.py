"""What a Python file holds: its classes, its functions, and how complex each function is.

Runs in workers: the standard library and msgspec only. The file is parsed, never imported.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import msgspec

__all__ = ["Class", "Function", "Outline", "outline"]


class Class(msgspec.Struct, frozen=True):
    """A class: its dotted name in the file and its lines, from 1, both included."""

    name: str
    line: int
    end_line: int


class Function(msgspec.Struct, frozen=True):
    """A function or method, as `Class` has it, and its cyclomatic complexity.

    Complexity is 1 and one more for each ``if``, ``for``, ``while``, ``except``, ``assert``,
    conditional expression, further operand of ``and``/``or``, ``if`` of a comprehension, and
    ``case`` other than a bare ``case _``. A nested function counts for itself only.
    """

    name: str
    line: int
    end_line: int
    complexity: int


class Outline(msgspec.Struct, frozen=True):
    """What one file holds, in the order it is written."""

    path: str
    doc: str  # the first line of the module's docstring
    lines: int
    classes: list[Class]
    functions: list[Function]
    most_complex: Function | None


def outline(prompt: str, path: str) -> Outline:  # noqa: ARG001 - every file gets the same look
    """Parse a Python file and say what it holds.

    Raises `SyntaxError` with the path and the line for what is not Python, and `OSError` for what
    cannot be read.
    """
    source = Path(path).read_bytes()
    tree = _parse(source, path)
    classes, functions = _definitions(tree)
    return Outline(
        path=path,
        doc=(ast.get_docstring(tree) or "").partition("\n")[0].strip(),
        lines=len(source.splitlines()),
        classes=classes,
        functions=functions,
        most_complex=max(functions, key=lambda one: one.complexity, default=None),
    )


def _parse(source: bytes, path: str) -> ast.Module:
    if b"\0" in source:  # ast.parse raises ValueError or SyntaxError, by Python version
        line = source.count(b"\n", 0, source.index(b"\0")) + 1
        raise SyntaxError("null bytes: this is not Python source", (path, line, None, None))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarning on invalid escapes and the like
            return ast.parse(source, path)  # bytes: Python reads the coding line itself
    except (RecursionError, MemoryError):
        problem = "nested too deeply to be parsed"
        raise SyntaxError(problem, (path, 1, None, None)) from None


def _definitions(tree: ast.Module) -> tuple[list[Class], list[Function]]:
    classes: list[Class] = []
    functions: list[Function] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:  # not recursive: generated files nest deeper than Python's stack
        node, prefix = waiting.pop()
        if isinstance(node, ast.ClassDef):
            name = prefix + node.name
            classes.append(Class(name, node.lineno, _end(node)))
            prefix = f"{name}."
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = prefix + node.name
            functions.append(Function(name, node.lineno, _end(node), _complexity(node)))
            prefix = f"{name}."
        waiting.extend((child, prefix) for child in ast.iter_child_nodes(node))
    classes.sort(key=lambda one: (one.line, -one.end_line))
    functions.sort(key=lambda one: (one.line, -one.end_line))
    return classes, functions


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.Assert,
)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    total = 1
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _NESTED):
            continue
        total += _branches(node)
        waiting.extend(ast.iter_child_nodes(node))
    return total


def _branches(node: ast.AST) -> int:
    if isinstance(node, _BRANCHES):
        return 1
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return len(node.ifs)
    if isinstance(node, ast.match_case):
        pattern = node.pattern
        bare = isinstance(pattern, ast.MatchAs) and pattern.name is None and node.guard is None
        return 0 if bare else 1
    return 0
