"""Python functions that look at files as an agent would, and answer with findings."""

import ast
from pathlib import Path

from hmz_mp.fanin import Finding


def undocumented(path: str, item_id: str) -> Finding:
    """Name the functions of a file that have no docstring."""
    try:
        tree = ast.parse(Path(path).read_text())
    except SyntaxError as error:
        where = f"{item_id}:{error.lineno}"
        return Finding(item_id, "failed", "This is not Python.", where, "high")
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    bare = [one for one in functions if ast.get_docstring(one) is None]
    if not bare:
        text = f"Its functions ({len(functions)}) have docstrings."
        return Finding(item_id, "ok", text, item_id, "high")
    names = ", ".join(one.name for one in bare)
    where = f"{item_id}:{bare[0].lineno}"
    return Finding(item_id, "ok", f"No docstring: {names}.", where, "high")


def size(path: str, item_id: str) -> Finding:
    """Say what a file that stands out consists of."""
    lines = Path(path).read_text().splitlines()
    functions = sum(line.lstrip().startswith("def ") for line in lines)
    text = f"It has {functions} functions in {len(lines)} lines: split it."
    return Finding(item_id, "ok", text, f"{item_id}:1", "low")
