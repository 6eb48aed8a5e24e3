"""``calls``: running a flow from a flow.

Owns only that; flows import it through ``hmz_mp.flows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hmz_mp.flows.loading import load_flow

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calls"]


def calls(name: str) -> Callable[..., Any]:
    """Return the flow called ``name``, to be called as ``calls("name")(agents, task)``.

    ``name`` is what ``hmz-mp exec -f`` takes. An ``async def`` flow is awaited
    (``await calls("name")(agents, task)``); a ``def`` flow runs here and returns its answer. A
    third argument gives its settings, ``state=`` the dict of a resumable one. Raises `BadInput`
    when there is no such flow or the number of agents is wrong.
    """
    return load_flow(name).call
