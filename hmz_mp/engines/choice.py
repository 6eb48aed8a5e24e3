"""Which engine a pool gets, by the name that its user gave. Imported by the pool.

What an engine takes beside the standard library is imported when it is named, and never before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from hmz_mp.core.cpus import worker_environment
from hmz_mp.engines.local import LocalEngine
from hmz_mp.engines.zygote import ZygoteConfig
from hmz_mp.errors import BadInput

if TYPE_CHECKING:
    from hmz_mp.core.loop import Driver
    from hmz_mp.engines.protocol import Engine, EngineEvents

__all__ = ["LOCAL", "EngineOptions", "check_engine", "make_engine"]

LOCAL = "local"
DASK = "dask://"
_DASK_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]@?#]+):(?P<port>\d{1,5})/?")


class EngineOptions(msgspec.Struct, frozen=True):
    """What every engine is made with. ``workers`` is how many were asked for, if that was said."""

    workers: int | None
    width: int
    config: ZygoteConfig  # with the environment that was asked for alone
    initializer: bytes
    log_level: int


def check_engine(name: str) -> None:
    """Raise what is wrong with an engine's name: `ValueError`, `BadInput` for its address."""
    if name == LOCAL:
        return
    if not name.startswith(DASK):
        raise ValueError(f"there is no engine {name!r}: there are 'local' and 'dask://HOST:PORT'")
    _dask_address(name)
    if find_spec("distributed") is None:
        raise BadInput("dask:// takes the library distributed: pip install 'hmz-mp[dask]'")


def make_engine(name: str, driver: Driver, events: EngineEvents, options: EngineOptions) -> Engine:
    """Return a new engine, not opened yet. Raises `BadInput` where it cannot be had."""
    config = options.config
    if name == LOCAL:
        env: Mapping[str, str] = worker_environment(options.width, config.env or {})
        return LocalEngine(
            driver,
            events,
            msgspec.structs.replace(config, env=env),
            initializer=options.initializer,
            log_level=options.log_level,
        )
    from hmz_mp.core.loop import AsyncioDriver

    if not isinstance(driver, AsyncioDriver):
        raise BadInput("dask:// needs asyncio: Dask's client does not run on trio")
    try:
        from hmz_mp.engines.dask.engine import DaskEngine
    except ImportError as error:
        raise BadInput(f"dask:// cannot be used: {error}; pip install 'hmz-mp[dask]'") from error
    return DaskEngine(
        driver,
        events,
        config,
        address=_dask_address(name),
        most=options.workers,
        initializer=options.initializer,
        log_level=options.log_level,
    )


def _dask_address(name: str) -> str:
    """Return an address as Dask takes it. Raises `BadInput` if it is malformed."""
    found = _DASK_ADDRESS.fullmatch(name[len(DASK) :])
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise BadInput(f"{name!r} is no address of a Dask scheduler: write dask://HOST:PORT")
    return f"{found['host']}:{found['port']}"
