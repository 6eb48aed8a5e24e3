"""How one turn of one kind of agent runs inside a worker: one module per kind.

A module has ``run(what, ..., request)`` for work that needs a process to itself, or an ``async``
``arun`` for work that waits. They raise what went wrong; retries, deadlines and order are the
coordinator's. It imports and ships ``turn`` or ``aturn``, which take the request in pieces: plain
values, which cost less to pickle and to load than an object. Standard library and msgspec only.
"""

from __future__ import annotations

import msgspec

__all__ = ["Pieces", "Request"]

Pieces = tuple[str, str, str | None, str, str | None]


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

    @staticmethod
    def pieces(prompt: str, item_id: str, path: bytes | None, task: str, cwd: str | None) -> Pieces:
        """Return what `of` makes a request of, in which there are no bytes."""
        return prompt, item_id, None if path is None else path.decode("latin-1"), task, cwd

    @classmethod
    def of(cls, prompt: str, item_id: str, path: str | None, task: str, cwd: str | None) -> Request:
        """Return the request of `pieces`."""
        return cls(prompt, item_id, None if path is None else path.encode("latin-1"), task, cwd)
