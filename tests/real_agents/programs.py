"""Where the real programs are."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["real_program"]

_MODULES = Path(__file__).parents[2] / ".agents" / "node_modules"
_PLACES = {
    # The program itself, rather than a script of its package that looks at Node's version first.
    "claude": ["@anthropic-ai/claude-code-*/claude", ".bin/claude"],
    "codex": ["@openai/codex-*/vendor/*/bin/codex", ".bin/codex"],
    "opencode": [".bin/opencode"],
    "qwen": [".bin/qwen"],
}


def real_program(name: str) -> Path:
    """Return where a program is; skips the test if it is not installed."""
    for place in _PLACES[name]:
        for found in sorted(_MODULES.glob(place)):
            return found
    pytest.skip(f"{name} is not installed in .agents/ (make agents does that)")
