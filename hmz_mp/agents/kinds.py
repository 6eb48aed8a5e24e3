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
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import sh, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hmz_mp.agents.spec import Spec

__all__ = ["KINDS", "Engine", "engine_for"]


class Engine(NamedTuple):
    """How the turns of one agent run.

    ``call`` is given ``args`` and the fields of a `Request` in a worker: no object made of them,
    so that what is shipped is a function found by identity and plain values. ``waits`` says that
    it is a coroutine function, which waits more than it computes. ``options`` are the pool's, as
    the spec sets them.
    """

    call: Callable[..., Any]
    args: tuple[Any, ...]
    waits: bool
    command: str | Sequence[str]
    options: dict[str, Any]


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
    return Engine(call, (target, directory), function.is_async, spec.text, _options(spec))


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
    return Engine(sh.aturn, (words,), True, words, _options(spec))


KINDS: dict[str, Callable[[Spec], Engine]] = {
    "tool": _tool,
    "sh": _sh,
}

_SETTINGS: dict[str, Callable[[str], float]] = {"timeout": float, "retries": int, "at_once": int}


def _options(spec: Spec) -> dict[str, Any]:
    """Read the settings that every kind has: seconds for a turn, tries after the first, width."""
    options: dict[str, Any] = {}
    for key, text in spec.settings.items():
        read = _SETTINGS.get(key)
        if read is None:
            raise BadInput(
                f"agent {spec.text!r}: {spec.backend}/ has no setting {key!r}; it has "
                f"{', '.join(_SETTINGS)}"
            )
        try:
            options[key] = read(text)
        except ValueError:
            raise BadInput(f"agent {spec.text!r}: {key}={text!r} is not a number") from None
        if not 0 <= options[key] < float("inf") or (key == "timeout" and not options[key]):
            raise BadInput(f"agent {spec.text!r}: {key}={text} is out of range")
    return options
