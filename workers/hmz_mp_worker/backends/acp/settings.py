"""How an agent program is started and what its sessions are set to, from an agent's settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from hmz_mp_worker.scratch import here

__all__ = [
    "KINDS",
    "PERMISSIONS",
    "STALL",
    "Permission",
    "Settings",
    "environment",
    "modes_of",
]

STALL = 900.0  # seconds without a word
Permission = Literal["read-only", "workspace-write", "auto", "bypass"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)

# The kinds of tools that the protocol knows.
KINDS = (
    *("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"),
    "other",
)

# Modes that are known to ask before they do what a rung does not permit, the best first; programs
# name them as they like. A program that starts in one which asks nothing (OpenCode's, Qwen Code's)
# would otherwise do it.
_MODES: dict[Permission, tuple[str, ...]] = {
    "read-only": ("read-only", "default", "plan"),
    "workspace-write": ("default", "workspace-write"),
    "auto": ("auto", "default", "workspace-write"),
    "bypass": ("bypassPermissions", "yolo", "full-access", "bypass"),
}


class Settings(msgspec.Struct, frozen=True):
    """An agent's settings.

    ``model``, ``effort`` and ``mode`` are what its sessions are set to, if they are not empty.
    ``allow`` and ``deny`` are kinds of tools. ``auth`` is one of the program's ways to
    authenticate. ``home`` is its HOME, empty for ours. With ``commands`` a prompt may be a command
    of the program's. With ``fresh`` a conversation has a program of its own. ``stall`` is in
    seconds.
    """

    command: tuple[str, ...]
    model: str = ""
    effort: str = ""
    mode: str = ""
    permission: Permission = "workspace-write"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    auth: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    home: str = ""
    commands: bool = False
    fresh: bool = False
    stall: float = STALL

    @property
    def program(self) -> tuple[Any, ...]:
        """What two agents have to have in common to share a program."""
        return self.command, self.environment, self.home, self.auth


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a program; a HOME that is not there is made."""
    variables = dict(os.environ)
    if settings.home:
        home = Path(here(settings.home))
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        variables["HOME"] = str(home)
    return variables | dict(settings.environment)


def modes_of(settings: Settings) -> tuple[str, ...]:
    """Return the modes that a session should be in, the best first."""
    return (settings.mode,) if settings.mode else _MODES[settings.permission]
