"""Settings of a flow: a YAML, TOML or JSON file, fitted into the type the flow takes.

Owns reading and fitting. The command line and ``definition`` import this module; it knows nothing
of flows.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from typing import TYPE_CHECKING, Any

import msgspec

from hmz_mp.errors import BadInput
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["fit", "read_settings"]


# Their parsers are slow imports, and most runs read no settings.


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_READERS: dict[str, Callable[[str], Any]] = {
    ".json": json.loads,
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
}


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a settings file holds; raises `BadInput` when it is not a table of settings."""
    shown = printable(str(path))
    read = _READERS.get(path.suffix.lower())
    if read is None:
        endings = ", ".join(_READERS)
        raise BadInput(f"settings file {shown}: its name must end in one of {endings}")
    try:
        settings = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"settings file {shown} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"settings file {shown}: {printable(str(error), multiline=True)}") from None
    if settings is None:  # an empty YAML file
        return {}
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise BadInput(f"settings file {shown}: it must hold names and their values")
    return settings


def fit(raw: Mapping[str, Any], wanted: Any, source: str) -> Any:
    """Return ``raw`` as a value of the type ``wanted``.

    ``wanted`` is a msgspec Struct, a dataclass, a TypedDict, a pydantic model, or anything else
    that msgspec converts to. Raises `BadInput` naming the field that does not fit; a name that
    ``wanted`` does not have is one.
    """
    known = _field_names(wanted)
    if known is not None and (unknown := set(raw) - known):
        raise BadInput(f"{source}: {_unknown(min(unknown), known)}")
    try:
        if hasattr(wanted, "model_validate"):
            return wanted.model_validate(dict(raw))
        return msgspec.convert(dict(raw), wanted)
    except (ValueError, TypeError) as error:  # msgspec's and pydantic's are ValueErrors
        raise BadInput(f"{source}: {printable(_explain(error), multiline=True)}") from None


def _field_names(wanted: Any) -> set[str] | None:
    """Return the names a settings file may use, or ``None`` when any will do."""
    if hasattr(wanted, "model_validate"):
        if wanted.model_config.get("extra") == "allow":
            return None
        fields = wanted.model_fields
        aliases = {field.alias for field in fields.values() if field.alias}
        return {*fields, *aliases}
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return {field.encode_name for field in msgspec.structs.fields(wanted)}
    if dataclasses.is_dataclass(wanted):
        return {field.name for field in dataclasses.fields(wanted)}
    return None


def _unknown(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(known))}"
    return f"no setting is called {printable(name)} ({hint})"


def _explain(error: Exception) -> str:
    if hasattr(error, "errors"):  # pydantic: one entry for each field
        found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
        return "; ".join(f"{field}: {text}" if field else text for field, text in found)
    text, at, where = str(error).partition(" - at `$.")
    return f"{where.rstrip('`')}: {text}" if at else text
