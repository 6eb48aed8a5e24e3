"""Sessions: turns that never overlap, in submission order, in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp.core.gates import Gate
from hmz_mp.core.jobs import Kind, Lane
from hmz_mp.core.shipment import Settings
from hmz_mp.core.turns import Turn

if TYPE_CHECKING:
    from hmz_mp.core.pool import Pool
else:
    Pool = Any  # it imports this module

__all__ = ["Session"]


class Session(msgspec.Struct, gc=False, eq=False):
    """A sequence of turns in one process, where `hmz_mp.session_state` is the session's dict.

    It costs nothing until its first turn, which also decides whether it lives with the workers
    for plain functions or with those for ``async def``. Its state goes when the session object
    does, or with its worker: then the turn that ran fails, and the next begins in a new worker.
    """

    # A struct that the garbage collector does not look at: people open a million of them.
    _pool: Pool
    _settings: Settings
    _gates: tuple[Gate, ...]
    name: str | None = None
    _keep: bool = False
    _own: Lane | None = None

    @property
    def restarts(self) -> int:
        """How often the session's worker was lost, and its state with it."""
        return self._own.count_restarts() if self._own is not None else 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Turn:
        """Ship a call that runs after all those submitted to this session before it."""
        return self._pool._submit(fn, args, kwargs, self)

    async def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return the answer of a call, or raise what it failed with."""
        return await self.submit(fn, *args, **kwargs)

    def _lane(self, kind: Kind) -> Lane:
        if self._own is None:
            lane = self._pool._new_lane(kind, self._gates, self._settings.priority, serial=True)
            lane.keep = self._keep
            self._own = lane
        return self._own

    def __del__(self) -> None:
        if self._own is not None:
            self._pool._end_session(self._own)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name is not None else ""
        return f"<Session{name} restarts={self.restarts}>"
