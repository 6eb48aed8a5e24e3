"""The kinds of agent that are coding programs: what their settings mean, and where they are.

Raises `BadInput` for whatever the user has to correct.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hmz_mp.agents.engine import Engine
from hmz_mp.agents.folders import Folder
from hmz_mp.agents.options import Settings, pool_options
from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import claude, codex

if TYPE_CHECKING:
    from hmz_mp.agents.spec import Spec
    from hmz_mp_worker.backends.claude.settings import Permission

__all__ = ["account_of", "claude_engine", "codex_engine", "home_of", "program_at"]

_EFFORT = re.compile(r":([A-Za-z]+)\Z")
_CLAUDE = (
    *("effort", "permission", "allow", "deny", "args", "env", "home", "program"),
    *("commands", "fresh", "stall", "backoff"),
)
_CODEX = ("effort", "permission", "args", "env", "home", "program", "stall", "backoff")


def claude_engine(spec: Spec) -> Engine:
    """Return what runs the turns of a ``claude/MODEL[:EFFORT]`` agent."""
    options = pool_options(spec, _CLAUDE)
    given = Settings(spec)
    model, effort = _model_and_effort(spec, given, claude.EFFORTS)
    home, homes = home_of(given)
    settings = claude.Settings(
        program=_program(spec, given, "claude", "npm install -g @anthropic-ai/claude-code"),
        model=model,
        effort=effort,
        permission=_permission(given),
        allow=_tools(given, "allow"),
        deny=_tools(given, "deny"),
        arguments=given.words("args"),
        environment=given.variables("env"),
        home=home,
        homes=homes is not None,
        commands=given.flag("commands"),
        fresh=given.flag("fresh"),
        stall=given.seconds("stall", claude.STALL),
    )
    # The folder of private homes goes when the agent does.
    return Engine(
        *(claude.arun, (settings,), True, spec.text, options),
        converses=True,
        holds=homes,
        prices=True,
        account=account_of(spec, given, home if homes is None else ""),
        programs=True,
    )


def codex_engine(spec: Spec) -> Engine:
    """Return what runs the turns of a ``codex/MODEL[:EFFORT]`` agent."""
    options = pool_options(spec, _CODEX)
    given = Settings(spec)
    model, _, effort = spec.model.rpartition(":")
    if not model or effort not in codex.EFFORTS:
        model, effort = spec.model, ""
    home, holds = home_of(given)
    settings = codex.Settings(
        program=_program(spec, given, "codex", "npm install -g @openai/codex"),
        model=model,
        effort=_one(spec, effort, given.one_of("effort", codex.EFFORTS, "")),
        permission=_permission(given),
        arguments=given.words("args"),
        environment=given.variables("env"),
        home=home,
        stall=given.seconds("stall", codex.STALL),
    )
    return Engine(
        *(codex.arun, (settings,), True, spec.text, options),
        converses=True,
        holds=holds,
        account=account_of(spec, given, home if holds is None else ""),
        programs=True,
    )


def account_of(spec: Spec, given: Settings, home: str) -> str:
    """Return what tells apart the accounts that programs use, as far as can be known here.

    Nothing without backing off, which is what accounts are told apart for.
    """
    if given.one_of("backoff", ("true", "false"), "true") == "false":
        return ""
    return " ".join(filter(None, (spec.backend, home, given.text("env"))))


def _permission(given: Settings) -> Permission:
    rung = given.one_of("permission", claude.PERMISSIONS, "workspace-write")
    return cast("Permission", rung)


def _one(spec: Spec, written: str, given: str) -> str:
    if written and given and written != given:
        raise BadInput(f"agent {spec.text!r} has two efforts, {written} and {given}")
    return written or given


def _model_and_effort(spec: Spec, given: Settings, known: tuple[str, ...]) -> tuple[str, str]:
    """Take ``MODEL:EFFORT`` apart. A colon before digits is the model's own."""
    effort = given.one_of("effort", known, "")
    model = spec.model
    written = _EFFORT.search(model)
    if written is None:
        return model, effort
    if written[1] not in known:
        raise BadInput(
            f"agent {spec.text!r}: there is no effort {written[1]!r}; there is {', '.join(known)}"
        )
    return model[: written.start()], _one(spec, written[1], effort)


def _program(spec: Spec, given: Settings, name: str, how: str) -> str:
    wanted = given.text("program", name)
    return program_at(spec, wanted, f"install it ({how}), or say where it is with program=PATH")


def program_at(spec: Spec, wanted: str, what_to_do: str) -> str:
    """Return a program as an absolute path, so that no directory of a turn's changes it."""
    found = shutil.which(str(Path(wanted).expanduser().absolute()) if "/" in wanted else wanted)
    if found is None:
        where = "" if "/" in wanted else " on PATH"
        raise BadInput(f"agent {spec.text!r}: there is no program {wanted!r}{where}: {what_to_do}")
    return str(Path(found).absolute())


def home_of(given: Settings) -> tuple[str, Folder | None]:
    """Return the HOME of the programs, or a folder for one each, and what keeps that."""
    text = given.text("home")
    if text == "private":
        folder = Folder("homes")
        return folder.path, folder
    return (str(Path(text).expanduser().absolute()) if text else ""), None


def _tools(given: Settings, key: str) -> tuple[str, ...]:
    """Return names of tools, which may hold blanks in brackets: ``Bash(git log *) Edit``."""
    found = re.findall(r"[^\s,(]+(?:\([^)]*\))?", given.text(key))
    return tuple(found)
