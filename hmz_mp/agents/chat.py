"""The kinds of agent that are chat models behind an API: what their settings mean.

Raises `BadInput` for whatever the user has to correct: so also for a missing package or key,
before any turn. A key is looked for in the environment, never read from a spec, and goes nowhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from hmz_mp.agents.engine import Engine
from hmz_mp.agents.folders import Folder
from hmz_mp.agents.options import Settings, pool_options
from hmz_mp.errors import BadInput
from hmz_mp_worker import chat
from hmz_mp_worker.backends import chat as backend

if TYPE_CHECKING:
    from hmz_mp.agents.spec import Spec

__all__ = ["account_of", "chat_engine", "chat_settings"]

_MODEL = ("effort", "system", "base_url", "key_env", "max_tokens", "temperature", "stall")
_OWN = (*_MODEL, "attach", "backoff")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def chat_engine(spec: Spec) -> Engine:
    """Return what runs the turns of an ``openai/MODEL`` or ``anthropic/MODEL`` agent."""
    options = pool_options(spec, _OWN)
    given = Settings(spec)
    model = chat_settings(spec)
    folder = Folder("chat")
    attach = given.one_of("attach", ("true", "false"), "true") == "true"
    backs_off = given.one_of("backoff", ("true", "false"), "true") == "true"
    return Engine(
        *(backend.arun, (backend.Settings(model, folder.path, attach),), True, spec.text, options),
        converses=True,
        interjects=False,
        holds=folder,
        account=account_of(model) if backs_off else "",
    )


def chat_settings(spec: Spec) -> chat.Settings:
    """Return the model that a spec names, whatever else its other settings are."""
    service = cast("chat.Service", spec.backend)
    given = Settings(spec)
    efforts = backend.EFFORTS[service]
    model, _, written = spec.model.rpartition(":")
    if not model or written not in efforts:
        model, written = spec.model, ""
    effort = given.one_of("effort", efforts, "")
    if written and effort and written != effort:
        raise BadInput(f"agent {spec.text!r} has two efforts, {written} and {effort}")
    settings = chat.Settings(
        service,
        model,
        effort=written or effort,
        system=given.text("system"),
        base_url=_address(spec, given),
        key_env=_key_env(spec, given),
        max_tokens=given.whole("max_tokens", 0),
        temperature=given.number("temperature", None),
        stall=given.seconds("stall", chat.STALL),
    )
    _check(spec, settings)
    return settings


def account_of(settings: chat.Settings) -> str:
    """Return the name of the limit that all who ask with these settings share."""
    return " ".join(filter(None, (settings.service, settings.base_url, settings.key_env)))


def _address(spec: Spec, given: Settings) -> str:
    text = given.text("base_url")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        named = parts.hostname is not None and (parts.port or True)
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https"):
        raise BadInput(
            f"agent {spec.text!r}: base_url={text} is not an address, as http://127.0.0.1:8080/v1"
        )
    if "@" in parts.netloc:
        raise BadInput(
            "base_url= has a user or a password in it, and what an agent is written as is kept in "
            "the ledger: name a variable of your environment with key_env="
        )
    return text


def _key_env(spec: Spec, given: Settings) -> str:
    name = given.text("key_env")
    if name and not _NAME.match(name):  # it may be the key itself, so it is not repeated
        raise BadInput(
            f"key_env= of {spec.backend}/ is the name of a variable of your environment that has "
            "the key, as in key_env=MY_KEY; what was given is none"
        )
    return name


def _check(spec: Spec, settings: chat.Settings) -> None:
    """Raise `BadInput` for a missing package or key."""
    package = chat.PACKAGES[settings.service]
    if importlib.util.find_spec(package) is None:
        raise BadInput(
            f"agent {spec.text!r} needs the Python package {package}, which is not installed: "
            f"pip install 'hmz-mp[{package}]'"
        )
    needed = chat.needs_key(settings)
    if needed and not os.environ.get(needed):
        raise BadInput(
            f"agent {spec.text!r} needs a key: set {needed} in your environment, or name another "
            "variable with key_env=NAME, or a server that wants none with base_url=ADDRESS"
        )
