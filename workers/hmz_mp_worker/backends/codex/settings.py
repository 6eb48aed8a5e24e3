"""How Codex is started and its threads are opened, from an agent's settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from hmz_mp_worker.scratch import here

__all__ = [
    "EFFORTS",
    "PERMISSIONS",
    "STALL",
    "Permission",
    "Settings",
    "arguments",
    "environment",
    "exec_arguments",
    "thread_settings",
]

# Models say themselves which they know. Another word after a colon is part of a model's name, as
# in those of local servers.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
STALL = 900.0  # seconds without a word
Permission = Literal["read-only", "workspace-write", "auto", "bypass"]

# What each rung is in the program's own words. `on-request` has the agent ask for what its sandbox
# forbids, and what is asked is declined: with `never` it would be refused without a word.
PERMISSIONS: dict[Permission, dict[str, str]] = {
    "read-only": {"sandbox": "read-only", "approvalPolicy": "on-request"},
    "workspace-write": {"sandbox": "workspace-write", "approvalPolicy": "on-request"},
    "auto": {
        "sandbox": "workspace-write",
        "approvalPolicy": "on-request",
        "approvalsReviewer": "auto_review",
    },
    "bypass": {"sandbox": "danger-full-access", "approvalPolicy": "never"},
}


class Settings(msgspec.Struct, frozen=True):
    """An agent's settings. ``home`` is its HOME, empty for ours. ``stall`` is in seconds."""

    program: str
    model: str
    effort: str = ""
    permission: Permission = "workspace-write"
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    home: str = ""
    stall: float = STALL

    @property
    def server(self) -> tuple[Any, ...]:
        """What two agents have to have in common to share a server."""
        return self.program, self.arguments, self.environment, self.home


def arguments(settings: Settings) -> list[str]:
    """Return the program and its arguments."""
    return [settings.program, "app-server", *settings.arguments]


def exec_arguments(settings: Settings, thread: str, schema_file: str) -> list[str]:
    """Return the program and its arguments for one turn, whose prompt is its input."""
    rung = PERMISSIONS[settings.permission]
    words = [settings.program, "exec", *(["resume"] if thread else [])]
    words += ["--json", "--skip-git-repo-check", "-m", settings.model]
    words += ["-c", f'sandbox_mode="{rung["sandbox"]}"']
    words += ["-c", f'approval_policy="{rung["approvalPolicy"]}"']
    if settings.effort:
        words += ["-c", f'model_reasoning_effort="{settings.effort}"']
    if schema_file:
        words += ["--output-schema", schema_file]
    return [*words, *settings.arguments, *([thread] if thread else []), "-"]


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a program; a HOME that is not there is made."""
    variables = dict(os.environ)
    if settings.home:
        home = Path(here(settings.home))
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        variables["HOME"] = str(home)
    return variables | dict(settings.environment)


def thread_settings(settings: Settings, cwd: str, provider: str) -> dict[str, Any]:
    """Return the settings of a thread.

    Its retries are left to the coordinator, but for one when a stream was cut. What a provider of
    the program's own is told so, it may refuse.
    """
    found: dict[str, Any] = {
        "cwd": cwd,
        "model": settings.model,
        **PERMISSIONS[settings.permission],
    }
    if provider:
        place = f"model_providers.{provider}"
        found["config"] = {
            f"{place}.request_max_retries": 0,
            f"{place}.stream_max_retries": 1,
        }
    return found
