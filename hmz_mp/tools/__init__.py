"""``@tool``: a function whose calls go to workers, beside the agent turns of a flow.

Workers import users' modules that use it, so this imports no loop, no pool and no schema until
one is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hmz_mp.tools.decorator import AsyncTool, Tool, tool

if TYPE_CHECKING:
    from hmz_mp.tools.batching import Answered, BatchTool, batch_tool
    from hmz_mp.tools.signature import BadArguments

__all__ = ["Answered", "AsyncTool", "BadArguments", "BatchTool", "Tool", "batch_tool", "tool"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("Answered", "BatchTool", "batch_tool"):
        return getattr(import_module("hmz_mp.tools.batching"), name)
    if name == "BadArguments":
        return import_module("hmz_mp.tools.signature").BadArguments
    raise AttributeError(f"module 'hmz_mp.tools' has no attribute {name!r}")
