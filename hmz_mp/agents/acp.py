"""The kind of agent that speaks the Agent Client Protocol: its program, and its settings.

Raises `BadInput` for whatever the user has to correct.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from typing import TYPE_CHECKING, cast

from hmz_mp.agents.coding import account_of, home_of, program_at
from hmz_mp.agents.engine import Engine
from hmz_mp.agents.options import Settings, pool_options
from hmz_mp.errors import BadInput
from hmz_mp_worker.backends import acp

if TYPE_CHECKING:
    from hmz_mp.agents.spec import Spec
    from hmz_mp_worker.backends.acp.settings import Permission

__all__ = ["acp_engine"]

_SDK = "agent-client-protocol"
_SETTINGS = (
    *("command", "effort", "mode", "permission", "allow", "deny", "auth", "env", "home"),
    *("commands", "fresh", "stall", "backoff"),
)


def acp_engine(spec: Spec) -> Engine:
    """Return what runs the turns of an ``acp/COMMAND`` agent.

    Written by keys, ``command`` is the command and ``model`` the program's model; without
    ``command``, ``model`` is the command, as it stands after ``acp/``.
    """
    options = pool_options(spec, _SETTINGS)
    _require_sdk(spec)
    given = Settings(spec)
    command = given.text("command")
    home, holds = home_of(given)
    settings = acp.Settings(
        command=_command(spec, command or spec.model),
        model=spec.model if command else "",
        effort=given.text("effort"),
        mode=given.text("mode"),
        permission=cast(
            "Permission", given.one_of("permission", acp.PERMISSIONS, "workspace-write")
        ),
        allow=_kinds(spec, given, "allow"),
        deny=_kinds(spec, given, "deny"),
        auth=given.text("auth"),
        environment=given.variables("env"),
        home=home,
        commands=given.flag("commands"),
        fresh=given.flag("fresh"),
        stall=given.seconds("stall", acp.STALL),
    )
    account = account_of(spec, given, home if holds is None else "")
    return Engine(
        *(acp.arun, (settings,), True, spec.text, options),
        converses=True,
        holds=holds,
        account=f"{account} {settings.command[0]}" if account else "",
        programs=settings.fresh,  # else one of them has all turns
    )


def _require_sdk(spec: Spec) -> None:
    try:
        importlib.metadata.version(_SDK)
    except importlib.metadata.PackageNotFoundError:
        raise BadInput(
            f"agent {spec.text!r}: acp/ needs the package {_SDK}, which is not here: "
            "pip install 'hmz-mp[acp]'"
        ) from None


def _command(spec: Spec, text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"agent {spec.text!r} cannot be split into words: {error}") from None
    if not words:
        raise BadInput(f"agent {spec.text!r} has no program to run")
    return (program_at(spec, words[0], "install it, or write where it is"), *words[1:])


def _kinds(spec: Spec, given: Settings, key: str) -> tuple[str, ...]:
    found = tuple(re.findall(r"[^\s,]+", given.text(key)))
    for one in found:
        if one not in acp.KINDS:
            raise BadInput(
                f"agent {spec.text!r}: {key}={one} is no kind of tool; there is "
                f"{', '.join(acp.KINDS)}"
            )
    return found
