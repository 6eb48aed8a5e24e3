"""The kinds of agent: for each, what its model means and what is shipped to a worker.

A new kind is a module of ``hmz_mp_worker.backends`` and a line in `KINDS`: a function from a
`Spec` to an `Engine` that raises `BadInput` for whatever the user has to correct.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from hmz_mp.agents.acp import acp_engine
from hmz_mp.agents.chat import chat_engine
from hmz_mp.agents.coding import claude_engine, codex_engine
from hmz_mp.agents.engine import Engine
from hmz_mp.agents.identity import digest_of_files
from hmz_mp.agents.options import pool_options
from hmz_mp.agents.sources import files_of_command, files_of_function
from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import sh, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hmz_mp.agents.spec import Spec

__all__ = ["KINDS", "Engine", "engine_for"]


def engine_for(spec: Spec) -> Engine:
    """Return what runs the turns of an agent. Raises `BadInput` when nothing can."""
    kind = KINDS.get(spec.backend)
    if kind is None:
        there = ", ".join(f"{name}/" for name in KINDS)
        raise BadInput(f"agent {spec.text!r}: this version has no {spec.backend}/; it has {there}")
    return kind(spec)


def _tool(spec: Spec) -> Engine:
    where, name = tool.split_target(spec.model)
    if not where or not name:
        raise BadInput(
            f"agent {spec.text!r} names no function: write tool/MODULE:FUNCTION or "
            "tool/FILE.py:FUNCTION"
        )
    directory = str(Path.cwd())
    if where.endswith(".py"):
        file = Path(where).expanduser().absolute()
        if not file.is_file():
            raise BadInput(f"agent {spec.text!r}: there is no file {file}")
        where, directory = str(file), str(file.parent)
    target = f"{where}:{name}"
    function = _loaded(spec, target, directory)
    call = tool.aturn if function.is_async else tool.turn
    files = files_of_function(where, function.function)
    return Engine(
        *(call, (target, directory), function.is_async, spec.text, pool_options(spec)),
        source=digest_of_files(*files),
        files=files,
    )


def _loaded(spec: Spec, target: str, directory: str) -> tool.Function:
    where, _ = tool.split_target(target)
    try:
        return tool.load(target, directory)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise BadInput(
                f"agent {spec.text!r}: there is no module {error.name!r} (looked in the "
                f"environment of {sys.executable}, and in {directory})"
            ) from None
        raise _raised(spec, where, error) from error
    except tool.BadTarget as error:
        raise BadInput(f"agent {spec.text!r}: {error}") from None
    except (Exception, SystemExit) as error:
        raise _raised(spec, where, error) from error


def _raised(spec: Spec, where: str, error: BaseException) -> BadInput:
    text = "".join(traceback.format_exception(error)).rstrip()
    return BadInput(f"agent {spec.text!r}: importing {where} raised:\n{text}")


def _sh(spec: Spec) -> Engine:
    try:
        words = shlex.split(spec.model)
    except ValueError as error:
        raise BadInput(f"agent {spec.text!r} cannot be split into words: {error}") from None
    if not words:
        raise BadInput(f"agent {spec.text!r} has no program to run")
    program = words[0]
    if "/" not in program and "{" not in program and shutil.which(program) is None:
        raise BadInput(f"agent {spec.text!r}: there is no program {program!r} on PATH")
    files = files_of_command(words)
    return Engine(
        *(sh.aturn, (words,), True, words, pool_options(spec)),
        source=digest_of_files(*files),
        files=files,
    )


KINDS: dict[str, Callable[[Spec], Engine]] = {
    "tool": _tool,
    "sh": _sh,
    "claude": claude_engine,
    "codex": codex_engine,
    "acp": acp_engine,
    "openai": chat_engine,
    "anthropic": chat_engine,
}
