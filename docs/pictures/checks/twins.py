"""A check that takes its time: functions of a file that are nearly the same, for ``tool/``."""

import ast
import logging
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import hmz_mp

LOG = logging.getLogger("twins")
ALIKE = 0.8
LEAST = 40  # characters


def twins(path: str) -> str:
    """Compare every function of a file with every other, and name those that are nearly the same.

    Raises `SyntaxError` for what is not Python.
    """
    found = [one for one in bodies(ast.parse(Path(path).read_bytes(), path)) if len(one[1]) > LEAST]
    pairs = 0
    for number, (name, body) in enumerate(found):
        if number % max(1, len(found) // 8) == 0:
            hmz_mp.progress(number / len(found), f"{number} of {len(found)} functions")
        matcher = SequenceMatcher(None, "", body, autojunk=False)
        for other_name, other_body in found[:number]:
            matcher.set_seq1(other_body)
            if is_alike(matcher):
                pairs += 1
                LOG.warning("%s and %s", other_name, name)
    return f"{len(found)} functions, pairs nearly the same: {pairs}"


def bodies(tree: ast.AST, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield every function's full name, and what it does, written without comments."""
    for node in ast.iter_child_nodes(tree):
        inner = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{within}{node.name}."
            if not isinstance(node, ast.ClassDef):
                yield f"{within}{node.name}", "\n".join(map(ast.unparse, node.body))
        yield from bodies(node, inner)


def is_alike(matcher: SequenceMatcher[str]) -> bool:
    """Whether two texts are: what is quick to find out comes first."""
    bounds = matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio
    return all(bound() > ALIKE for bound in bounds)
