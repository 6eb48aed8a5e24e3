"""Fields of answers of any kind, and numbers among them.

Pure. Imported by ``report``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

__all__ = ["field_of", "fields_of", "number_of"]


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of an answer, or nothing if it has none; a number is ``value``."""
    if isinstance(value, (int, float)):
        return {"value": value}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    found = getattr(value, "__dict__", None)
    if found is None or isinstance(value, type):
        names: Iterable[str] = getattr(value, "__dataclass_fields__", getattr(value, "_fields", ()))
        return {name: getattr(value, name, None) for name in names}
    return dict(found)


def field_of(value: Any, name: str) -> Any:
    """Return a field, or one inside of it by a dotted name; ``None`` if there is none."""
    if (found := fields_of(value).get(name)) is not None:
        return found
    for part in name.split("."):
        value = fields_of(value).get(part)
    return value


def number_of(value: object) -> float | None:
    """Return a number as a float; ``None`` for all else, and for one that is none (NaN)."""
    if isinstance(value, (bool, str, bytes)) or value is None:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number raises
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number
