"""The app servers of a worker: one for each settings, started once, ended when nobody uses it.

Owns who uses which. Many turns begin at the same time, so a start is waited for by all.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hmz_mp_worker.backends.codex.server import AppServer, NoAppServer
from hmz_mp_worker.backends.program import ProgramFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hmz_mp_worker.backends.codex.settings import Settings

__all__ = ["IDLE_SECONDS", "Servers"]

IDLE_SECONDS = 20.0  # a batch's turns follow each other faster than that


class _Place:
    """Where the server of some settings is, once it has started."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.server: AppServer | None = None
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None


class Servers:
    """All servers of a worker."""

    # The whole state: the places, which programs have an app server, and what is being closed.
    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._places: dict[Any, _Place] = {}
        self._has_server: dict[str, bool] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self, settings: Settings) -> AsyncIterator[AppServer]:
        """Have a server for a while. Raises `ProgramFailed` when none can be started."""
        place = self._places.setdefault(settings.server, _Place())
        place.users += 1
        if place.idle is not None:
            place.idle.cancel()
            place.idle = None
        try:
            async with place.lock:
                if place.server is None or not place.server.alive:
                    if place.server is not None:
                        await place.server.end()
                    place.server = await AppServer.start(settings)
                server = place.server
            yield server
        finally:
            place.users -= 1
            if not place.users:
                loop = asyncio.get_running_loop()
                place.idle = loop.call_later(self._idle_seconds, self._drop, settings.server)

    async def can_serve(self, settings: Settings) -> bool:
        """Tell whether the program has an app server; whatever else is wrong, the turn will say."""
        known = self._has_server.get(settings.program)
        if known is not None:
            return known
        try:
            async with self.use(settings):
                found = True
        except NoAppServer:
            found = False
        except ProgramFailed:
            return True
        self._has_server[settings.program] = found
        return found

    def _drop(self, key: Any) -> None:
        place = self._places.pop(key)
        if place.server is not None:
            closing = asyncio.get_running_loop().create_task(place.server.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
