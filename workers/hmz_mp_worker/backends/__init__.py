"""How one turn of one kind of agent runs inside a worker: one module or package per kind.

A module has ``run(what, ..., request)`` for work that needs a process to itself, or an ``async``
``arun`` for work that waits. They raise what went wrong; retries, deadlines and order are the
coordinator's. It imports and ships ``turn`` or ``aturn``, which take the request in pieces: plain
values, which cost less to pickle and to load than an object. Standard library and msgspec only.

Agents that are programs of their own are given the whole request: their turns cost far more. They
have six modules in common: ``protocol`` (what is said of a turn, and when it has succeeded),
``tree`` (a program and all that it started), ``program`` (one that speaks in lines), ``driving``
(one turn of a conversation), ``warm`` (programs that wait for the next) and ``shared`` (programs
that hold many conversations).
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Pieces", "Request"]

Pieces = tuple[str, str, str | None, str, str | None]


class Request(msgspec.Struct, frozen=True):
    """One turn, as a backend is given it.

    ``path`` is the item's file as bytes, or ``None``; relative to ``cwd``, which is ``None`` for
    the worker's own directory. ``task`` is the TASK of the run, or empty.

    The rest is for agents that converse. ``conversation`` names the conversation that the turn
    goes on with, ``place`` of its turns from 0; empty, the turn has one of its own. ``begun`` says
    that an earlier one was answered, so that the conversation has to be there; ``known_as`` is what
    the agent's program calls it: empty if no turn of it was heard of, ``None`` if that was not
    known yet as this one was asked for. ``schema`` is the type that the answer has to fit, or
    ``None``. With ``stream`` the answer is said as it is written. With ``pursue`` the prompt is an
    objective, to be worked towards until it is reached.
    """

    prompt: str
    item_id: str = ""
    path: bytes | None = None
    task: str = ""
    cwd: str | None = None
    conversation: str = ""
    place: int = 0
    begun: bool = False
    known_as: str | None = ""
    schema: Any = None
    stream: bool = False
    pursue: bool = False

    @staticmethod
    def pieces(prompt: str, item_id: str, path: bytes | None, task: str, cwd: str | None) -> Pieces:
        """Return what `of` makes a request of, in which there are no bytes."""
        return prompt, item_id, None if path is None else path.decode("latin-1"), task, cwd

    @classmethod
    def of(cls, prompt: str, item_id: str, path: str | None, task: str, cwd: str | None) -> Request:
        """Return the request of `pieces`."""
        return cls(prompt, item_id, None if path is None else path.encode("latin-1"), task, cwd)
