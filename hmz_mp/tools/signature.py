"""What a tool takes: its signature as a JSON schema, and arguments read by it.

Imported when a tool is described to a model or called by one; it knows nothing of pools.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, get_type_hints

import msgspec

__all__ = ["BadArguments", "Signature"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class BadArguments(ValueError):
    """Raised when arguments are not such as the tool takes; the text says which and why."""


class Signature:
    """How a function may be called by a model: with an object that has its parameters by name.

    Raises `TypeError` for a function whose parameters cannot be described.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._parameters = _parameters(function, name)
        self._open = any(
            one.kind is inspect.Parameter.VAR_KEYWORD
            for one in inspect.signature(function).parameters.values()
        )
        hints = _hints(function, name)
        self._fields = {one: hints.get(one, Any) for one in self._parameters}
        self._struct = self._made()

    def _made(self) -> type[msgspec.Struct]:
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in self._parameters.items():
            if parameter.default is inspect.Parameter.empty:
                fields.append((name, self._fields[name]))
            else:  # the function's own default is what holds, so none is passed
                absent = msgspec.field(default_factory=lambda: msgspec.UNSET)
                fields.append((name, self._fields[name], absent))
        return msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=not self._open
        )

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return list(self._parameters)

    # For models.

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, an object."""
        others: dict[str, Any] = {}

        def described(kind: Any) -> dict[str, Any]:
            if isinstance(kind, type) and issubclass(kind, PurePath):
                return {"type": "string", "format": "path"}
            if callable(dump := getattr(kind, "model_json_schema", None)):  # pydantic's
                found: dict[str, Any] = dump(ref_template="#/$defs/{model}")
                others.update(found.pop("$defs", {}))
                return found
            raise NotImplementedError

        try:
            found = msgspec.json.schema(self._struct, schema_hook=described)
        except (TypeError, NotImplementedError, RecursionError) as error:
            raise TypeError(f"{self._name} cannot be described to a model: {error}") from error
        defined: dict[str, Any] = {**found.get("$defs", {}), **others}
        top: dict[str, Any] = defined.pop("Arguments", found)
        top.pop("title", None)
        self._note_defaults(top.setdefault("properties", {}))
        return {**top, "$defs": defined} if defined else top

    def _note_defaults(self, properties: dict[str, Any]) -> None:
        for name, parameter in self._parameters.items():
            default = parameter.default
            if default is not inspect.Parameter.empty and _is_json(default):
                properties[name] = {**properties[name], "default": default}

    # From models.

    def read(self, arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with, of an object or of its JSON.

        JSON in a string in JSON is read too, for all of it or for one argument, as models write
        it by mistake. Raises `BadArguments`.
        """
        given = self._object(arguments)
        try:
            read = msgspec.convert(given, self._struct, dec_hook=_made_of)
        except (msgspec.ValidationError, RecursionError) as error:
            read = self._again(given, error)
        values = {name: getattr(read, name) for name in self._parameters}
        values = {name: one for name, one in values.items() if one is not msgspec.UNSET}
        if self._open:
            values |= {name: one for name, one in given.items() if name not in self._parameters}
        positional = []
        for name, parameter in self._parameters.items():
            if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY or name not in values:
                break
            positional.append(values.pop(name))
        return tuple(positional), values

    def _object(self, arguments: Any) -> dict[str, Any]:
        for _ in range(3):  # an object, JSON, or JSON in JSON
            if isinstance(arguments, Mapping):
                return {str(key): one for key, one in arguments.items()}
            if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
                return {}
            if not isinstance(arguments, (str, bytes)):
                break
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise self._bad(f"they are not JSON: {error}") from error
        raise self._bad("they are no JSON object")

    def _again(self, given: dict[str, Any], error: Exception) -> Any:
        """Read arguments that did not fit with what is a string in them taken for what it says."""
        repaired = {}
        for name, value in given.items():
            repaired[name] = value
            if isinstance(value, str) and self._fields.get(name) is not str:
                try:
                    repaired[name] = json.loads(value)
                except (ValueError, RecursionError):
                    continue
        try:
            return msgspec.convert(repaired, self._struct, dec_hook=_made_of)
        except (msgspec.ValidationError, RecursionError):
            raise self._bad(str(error)) from error

    def _bad(self, reason: str) -> BadArguments:
        takes = ", ".join(
            name if one.default is inspect.Parameter.empty else f"{name} (optional)"
            for name, one in self._parameters.items()
        )
        return BadArguments(
            f"the arguments of {self._name} do not fit: {reason}. It takes {takes or 'none'}."
        )


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    found: dict[str, inspect.Parameter] = {}
    for one in inspect.signature(function).parameters.values():
        if one.kind is inspect.Parameter.VAR_POSITIONAL and not found:
            raise TypeError(
                f"{name} takes *{one.name}, which has no name for a model to call it with: "
                "take a list"
            )
        if one.kind in _NAMED or one.kind is inspect.Parameter.POSITIONAL_ONLY:
            found[one.name] = one
    return found


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"the annotations of {name} cannot be read: {error}; define what they name in its "
            "module"
        ) from error


def _made_of(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(os.fspath(value))
    if callable(validate := getattr(kind, "model_validate", None)):  # pydantic's
        return validate(value)
    raise NotImplementedError(f"a {kind} cannot be made of JSON")


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
