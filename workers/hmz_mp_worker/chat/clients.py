"""The SDKs' clients, which hold connections: one for each service, address and key.

Owns when they are made and closed, and where keys come from. A key is read from the environment
when its client is made, and is nowhere else.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from hmz_mp_worker import state
from hmz_mp_worker.backends.protocol import Failed

if TYPE_CHECKING:
    from hmz_mp_worker.chat.messages import Service, Settings

__all__ = [
    "DEFAULT_KEYS",
    "PACKAGES",
    "Client",
    "Clients",
    "NoClient",
    "clients_of_this_loop",
    "needs_key",
]

# For each service: its SDK's package, which is also the extra's name, and its class of clients.
PACKAGES: dict[Service, str] = {"openai": "openai", "anthropic": "anthropic"}
_CLASSES: dict[Service, str] = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}
DEFAULT_KEYS: dict[Service, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_ADDRESSES: dict[Service, str] = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}

_NO_KEY = "none"  # what servers that want no key are sent, as SDKs want one
_CONNECT_SECONDS = 30.0


class NoClient(Exception):
    """Raised when there is no client to ask with."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure)
        self.failure = failure


class Client(NamedTuple):
    """A client of an SDK, that SDK's module, and the key, to be kept out of what is said."""

    sdk: Any
    module: Any
    key: str


def needs_key(settings: Settings) -> str:
    """Return the variable that has to be set for these settings, or an empty string.

    A server of one's own may want no key, and is sent none that is not named.
    """
    if settings.key_env:
        return settings.key_env
    if settings.base_url or os.environ.get(_ADDRESSES[settings.service]):
        return ""
    return DEFAULT_KEYS[settings.service]


class Clients(state.Resource):
    """Clients of one event loop, made as they are needed."""

    # The whole state: the clients, by all that tells them apart; and whether one is being made.
    def __init__(self) -> None:
        self._clients: dict[tuple[object, ...], Client] = {}
        self._making = asyncio.Lock()

    async def of(self, settings: Settings) -> Client:
        """Return the client of a model. Raises `NoClient`."""
        key = (settings.service, settings.base_url, settings.key_env, settings.stall)
        if key not in self._clients:
            async with self._making:
                if key not in self._clients:
                    # Importing an SDK takes seconds, for which other turns would stand still.
                    self._clients[key] = await asyncio.to_thread(_made, settings)
        return self._clients[key]

    async def close(self) -> None:
        """Close all connections. What is asked afterwards makes new ones."""
        clients, self._clients = self._clients, {}
        state.release(self)
        for client in clients.values():
            await client.sdk.close()

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = (
    weakref.WeakKeyDictionary()
)


def clients_of_this_loop() -> Clients:
    """Return the clients of the running loop, closed when this worker ends."""
    loop = asyncio.get_running_loop()
    clients = _by_loop.get(loop)
    if clients is None:
        clients = _by_loop[loop] = Clients()
    state.hold(clients)
    return clients


def _made(settings: Settings) -> Client:
    service = settings.service
    name = PACKAGES[service]
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        reason = f"{service}/ needs a package: pip install 'hmz-mp[{name}]' ({error})"
        raise NoClient(Failed("died", reason)) from None
    # A read times out when no byte has come for so long: pings count as signs of life.
    timeout = module.Timeout(settings.stall, connect=_CONNECT_SECONDS, pool=None)
    key = _key(settings)
    sdk = getattr(module, _CLASSES[service])(
        api_key=key or _NO_KEY,
        base_url=settings.base_url or None,
        max_retries=0,
        timeout=timeout,
    )
    return Client(sdk, module, key)


def _key(settings: Settings) -> str:
    needed = needs_key(settings)
    own = "" if settings.base_url else DEFAULT_KEYS[settings.service]
    key = os.environ.get(needed or own, "")
    if needed and not key:
        reason = f"there is no key: {needed} is not set in the environment"
        raise NoClient(Failed("unauthorised", reason))
    return key
