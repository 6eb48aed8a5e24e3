"""Both services on loopback with one script, and settings that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from hmz_mp_worker.chat import Service, Settings
from tests.model_servers.anthropic import Anthropic
from tests.model_servers.openai import OpenAI
from tests.model_servers.serving import ModelServer, serving

__all__ = ["SERVICES", "Place", "base_url", "placed"]

SERVICES: tuple[Service, ...] = ("openai", "anthropic")


class Place(NamedTuple):
    """A service, its server, and settings for it."""

    service: Service
    server: ModelServer
    settings: Settings

    def body(self) -> dict[str, Any]:
        """Return the last request."""
        found = self.server.requests[-1]["body"]
        assert isinstance(found, dict)
        return found


def base_url(service: Service, server: ModelServer) -> str:
    """Return the address that the service's SDK wants."""
    return f"{server.url}/v1" if service == "openai" else server.url


@contextmanager
def placed(service: Service, script: dict[str, Any]) -> Iterator[Place]:
    """Run a server of one service."""
    pytest.importorskip(service)
    with serving({"openai": OpenAI, "anthropic": Anthropic}[service], script) as server:
        settings = Settings(service, "tiny", base_url=base_url(service, server), stall=20.0)
        yield Place(service, server, settings)
