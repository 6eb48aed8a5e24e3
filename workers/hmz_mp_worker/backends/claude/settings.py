"""How Claude Code is started: its arguments and its environment, from an agent's settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from hmz_mp_worker.scratch import here

if TYPE_CHECKING:
    from hmz_mp_worker.backends.protocol import Ask

__all__ = [
    "EFFORTS",
    "PERMISSIONS",
    "STALL",
    "Permission",
    "Settings",
    "arguments",
    "environment",
]

EFFORTS = ("low", "medium", "high", "xhigh", "max")
STALL = 900.0  # seconds without a word; its own tools may run silently for 600
Permission = Literal["read-only", "workspace-write", "auto", "bypass"]

# What each rung is in the program's own words. What is not permitted is denied, since there is
# nobody to ask; `read-only` takes the editing tools away, so that nothing is even tried.
PERMISSIONS: dict[Permission, tuple[str, ...]] = {
    "read-only": (
        "--permission-mode",
        "dontAsk",
        "--disallowedTools",
        "Edit,Write,NotebookEdit",
    ),
    "workspace-write": ("--permission-mode", "acceptEdits"),
    "auto": ("--permission-mode", "auto"),
    "bypass": ("--permission-mode", "bypassPermissions"),
}

# One retry is left to the program because it says then what the service asks us to wait; the
# turn is ended before it comes to it, and trying again is decided in one place for all workers.
_ENVIRONMENT = {
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


class Settings(msgspec.Struct, frozen=True):
    """An agent's settings. ``home`` is its HOME, empty for ours; with ``homes`` each conversation
    has a HOME of its own below ``home``. ``stall`` is in seconds.
    """

    program: str
    model: str
    effort: str = ""
    permission: Permission = "workspace-write"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    home: str = ""
    homes: bool = False
    commands: bool = False
    fresh: bool = False
    stall: float = STALL


def arguments(
    settings: Settings, ask: Ask, conversation: tuple[str, ...], *, kept: bool
) -> list[str]:
    """Return the program and its arguments; ``conversation`` are those that say which."""
    words = [
        settings.program,
        "-p",
        *("--input-format", "stream-json", "--output-format", "stream-json"),
        *("--verbose", "--replay-user-messages"),
        *("--model", settings.model),
    ]
    if settings.effort:
        words += ["--effort", settings.effort]
    words += _permissions(settings)
    if kept:
        words.append("--include-partial-messages")
    if ask.schema:
        words += ["--json-schema", ask.schema]
    return [*words, *conversation, *settings.arguments]


def _permissions(settings: Settings) -> list[str]:
    words = list(PERMISSIONS[settings.permission])
    if settings.deny:
        if "--disallowedTools" in words:
            words[-1] += "," + ",".join(settings.deny)
        else:
            words += ["--disallowedTools", ",".join(settings.deny)]
    if settings.allow:
        words += ["--allowedTools", ",".join(settings.allow)]
    return words


def environment(settings: Settings, conversation: str) -> dict[str, str]:
    """Return the environment of a program; a HOME that is not there is made."""
    variables = {**_ENVIRONMENT, **os.environ, "CLAUDE_CODE_MAX_RETRIES": "1"}
    if settings.home:
        home = Path(here(settings.home), conversation if settings.homes else "")
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        variables["HOME"] = str(home)
    return variables | dict(settings.environment)
