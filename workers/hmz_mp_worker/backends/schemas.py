"""Types that answers have to fit: as JSON schemas for services, and as a check of what comes.

Both sides use it: a worker asks again for an answer that does not fit, and the coordinator makes
the value. Pydantic models are known by their methods, so pydantic itself is never imported here.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NotOfSchema", "Schema", "decoder_for", "schema_for"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)


class NotOfSchema(ValueError):
    """Raised when an answer is not JSON of the type that was asked for."""


class Schema(NamedTuple):
    """A JSON schema as text, and what returns an answer that fits, or raises `NotOfSchema`.

    Services want an object at the top, so a type that is none is put in one, as ``value``.
    """

    text: str
    check: Callable[[str], str]


def decoder_for(schema: Any) -> Callable[[str], Any]:
    """Return what turns an answer into ``schema``, or raises `NotOfSchema`.

    Raises `TypeError` at once for what no answer can be turned into.
    """
    if type(schema).__hash__ is None:  # a JSON schema written as a dict, for one
        raise TypeError(f"schema= takes a type, not a {type(schema).__name__}")
    return _decoder_for(schema)


@lru_cache(maxsize=256)
def _decoder_for(schema: Any) -> Callable[[str], Any]:
    name = getattr(schema, "__name__", str(schema))
    decode = _decode(schema, name)

    def decoded(answer: str) -> Any:
        try:
            return decode(answer)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise NotOfSchema(f"the answer does not fit {name}: {reason}") from error

    return decoded


def _decode(schema: Any, name: str) -> Callable[[str], Any]:
    if callable(validate := getattr(schema, "model_validate_json", None)):
        return validate  # type: ignore[no-any-return]  # pydantic's
    try:
        custom = isinstance(msgspec.inspect.type_info(schema), msgspec.inspect.CustomType)
        decoder = msgspec.json.Decoder(schema)
    except (TypeError, RecursionError) as error:
        raise TypeError(f"schema= cannot be {name}: {error}") from error
    if custom:
        raise TypeError(
            f"schema= takes a msgspec.Struct, a dataclass, a TypedDict or a pydantic model; "
            f"{name} is none of them"
        )

    def decode(answer: str) -> Any:
        try:
            return decoder.decode(answer)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if not _SURROGATE.search(answer):
                raise
            # File names that are not UTF-8: JSON can hold them, msgspec's reader cannot.
            return msgspec.convert(json.loads(answer), schema)

    return decode


@lru_cache(maxsize=256)
def schema_for(schema: Any, *, strict: bool = False) -> Schema:
    """Return the JSON schema of a type, and its check.

    With ``strict`` every object takes no other properties and requires all it has, as some
    services demand. Raises `TypeError` for a type that has none.
    """
    decode = decoder_for(schema)
    if callable(dump := getattr(schema, "model_json_schema", None)):  # pydantic
        found = dump()
    else:
        found = msgspec.json.schema(schema)
    found = _at_the_top(found)
    wrapped = found.get("type") != "object"
    if wrapped:
        names = found.pop("$defs", None)
        found = {"type": "object", "properties": {"value": found}, "required": ["value"]}
        if names is not None:
            found["$defs"] = names
    if strict:
        _make_strict(found)

    def check(answer: str) -> str:
        answer = _bare(answer)
        if wrapped:
            answer = _unwrapped(answer)
        decode(answer)
        return answer

    return Schema(json.dumps(found), check)


def _at_the_top(schema: dict[str, Any]) -> dict[str, Any]:
    """Put the definition that the whole schema refers to in its place."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    names = schema.get("$defs", {})
    if name not in names:
        return dict(schema)
    top = dict(names[name])
    others = {key: value for key, value in names.items() if key != name}
    if f'"#/$defs/{name}"' in json.dumps(names):  # it refers to itself
        others = names
    return {**top, "$defs": others} if others else top


def _make_strict(schema: Any) -> None:
    if isinstance(schema, list):
        for one in schema:
            _make_strict(one)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema["additionalProperties"] = False
            schema["required"] = list(schema["properties"])
        for key, value in schema.items():
            if key not in ("default", "enum", "const", "examples"):
                _make_strict(value)
        schema.pop("default", None)


def _bare(answer: str) -> str:
    """Return JSON without the fence that models like to put around it."""
    fenced = _FENCE.match(answer)
    return fenced[1] if fenced else answer


def _unwrapped(answer: str) -> str:
    try:
        return json.dumps(json.loads(answer)["value"])
    except (ValueError, KeyError, TypeError):
        return answer  # its check says what is wrong
