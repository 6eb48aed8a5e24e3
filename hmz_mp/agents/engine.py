"""What runs the turns of one agent, as its kind makes it of its spec. Imports nothing of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Engine"]


class Engine(NamedTuple):
    """How the turns of one agent run.

    ``call`` is given ``args`` and the fields of a `Request` in a worker: no object made of them,
    so that what is shipped is a function found by identity and plain values. ``waits`` says that
    it is a coroutine function, which waits more than it computes. ``options`` are the pool's, as
    the spec sets them.

    ``account`` names the limit that its turns share with those of other agents on the same account,
    where there is one; at it everybody waits when the service is too busy.

    ``programs`` says that it runs programs, each of them for as few as one turn, so that there are
    only as many turns at once as memory bears programs.

    ``prices`` says that its turns say what they cost.

    ``converses`` says that it is an agent that keeps conversations and knows of schemas: then it
    is given the `Request` itself. Such an agent can be told something in the middle of a turn,
    unless ``interjects`` is false. ``holds`` is what has to live as long as the agent.

    ``source`` is a digest of the code that answers, where that is the user's own, and ``files``
    are the files that it is in.
    """

    call: Callable[..., Any]
    args: tuple[Any, ...]
    waits: bool
    command: str | Sequence[str]
    options: dict[str, Any]
    converses: bool = False
    interjects: bool = True
    holds: object = None
    prices: bool = False
    account: str = ""
    programs: bool = False
    source: str = ""
    files: tuple[str, ...] = ()
