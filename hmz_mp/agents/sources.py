"""The code behind an agent that is the user's own: a tool's file, a command's script.

Owns which files count. Imported by ``kinds``. When one has changed, what it answered before is no
longer its answer.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["files_of_command", "files_of_function"]

_INTERPRETER = re.compile(r"(python|pypy|node|ruby|perl|bash|sh|zsh)[\d.]*\Z")


def files_of_function(where: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the file of a target, and the one that its function is defined in.

    What these import is not looked at.
    """
    files = [where] if where.endswith(".py") else []
    for name in (where, getattr(function, "__module__", None)):
        file = getattr(sys.modules.get(name or ""), "__file__", None)
        if file is not None:
            files.append(inspect.getsourcefile(sys.modules[name or ""]) or file)
    return tuple(dict.fromkeys(files))


def files_of_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command's script: the program itself, if it is written as a path.

    For an interpreter it is the first argument. Other arguments may be what the command writes to.
    """
    scripts = [words[0]] if "/" in words[0] else []
    if _INTERPRETER.match(Path(words[0]).name):
        scripts = [word for word in words[1:2] if not word.startswith("-")]
    return tuple(script for script in scripts if Path(script).is_file())
