"""Arguments that are read when their call is shipped, and again if it is shipped again.

What is large need not be held for every call that waits. Used by ``functions`` and by engines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.payload import Payload

__all__ = ["PLACEHOLDER", "Late", "LatePayload"]

# So long that its pickle leaves it out, which makes room for what is read.
PLACEHOLDER = bytes(1 << 16)


class Late:
    """Stands, as the first argument of a call, for the ``bytes`` that ``read`` returns.

    ``read`` is called on the coordinator's loop, and must not raise: there is nobody to tell.
    """

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.read = read


class LatePayload(NamedTuple):
    """A payload that lacks what is to be read for it."""

    late: Late
    data: bytes
    buffers: tuple[Buffer, ...]

    def payload(self) -> Payload:
        """Return the payload as it is shipped now."""
        return Payload(self.data, (self.late.read(), *self.buffers))
