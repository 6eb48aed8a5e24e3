"""How one turn of one kind of agent runs inside a worker: one module per kind.

A module has ``run(what, ..., request)`` for work that needs a process to itself, or an ``async``
``arun`` for work that waits; the coordinator imports them by name and ships them. They raise what
went wrong; retries, deadlines and order are the coordinator's. Standard library and msgspec only.
"""

from __future__ import annotations

import msgspec

__all__ = ["Request"]


class Request(msgspec.Struct, frozen=True):
    """One turn, as a backend is given it.

    ``path`` is the item's file as bytes, or ``None``; relative to ``cwd``, which is ``None`` for
    the worker's own directory. ``task`` is the TASK of the run, or empty.
    """

    prompt: str
    item_id: str = ""
    path: bytes | None = None
    task: str = ""
    cwd: str | None = None
