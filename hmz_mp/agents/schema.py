"""What ``schema=`` takes, and answers as that type.

Pydantic models are known by their method, so pydantic itself is never imported here.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NotOfSchema", "decoder_for"]

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotOfSchema(ValueError):
    """Raised when an answer is not JSON of the type that was asked for."""


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
