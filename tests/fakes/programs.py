"""Fake agent programs as files that can be run."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["fake_acp", "fake_claude", "fake_codex"]


def fake_claude(folder: Path, name: str = "claude") -> Path:
    """Write a program that is `claude_program`, and return where it is."""
    return _program(folder / name, Path(__file__).with_name("claude_program.py"))


def fake_codex(folder: Path, name: str = "codex") -> Path:
    """Write a program that is `codex_program`, and return where it is."""
    return _program(folder / name, Path(__file__).with_name("codex_program.py"))


def fake_acp(folder: Path, name: str = "acp-agent") -> Path:
    """Write a program that is `acp_program`, and return where it is."""
    return _program(folder / name, Path(__file__).with_name("acp_program.py"))


def _program(file: Path, module: Path) -> Path:
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {module} "$@"\n')
    file.chmod(0o755)
    return file
