"""The app servers of a worker: one for each settings, and which programs have one at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hmz_mp_worker.backends.codex.server import AppServer, NoAppServer
from hmz_mp_worker.backends.program import ProgramFailed
from hmz_mp_worker.backends.shared import IDLE_SECONDS, Shared

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hmz_mp_worker.backends.codex.settings import Settings

__all__ = ["IDLE_SECONDS", "Servers"]


class Servers:
    """All servers of a worker."""

    # The whole state: the servers, and which programs have an app server.
    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._servers: Shared[AppServer] = Shared(idle_seconds)
        self._has_server: dict[str, bool] = {}

    def use(self, settings: Settings) -> AbstractAsyncContextManager[AppServer]:
        """Have a server for a while. Raises `ProgramFailed` when none can be started."""
        return self._servers.use(settings.server, partial(AppServer.start, settings))

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
