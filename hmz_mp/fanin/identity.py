"""Which item is which: the ``item_id`` of strings, paths, dicts and Structs, each only once.

Imported by ``fanin``; it knows nothing of work or findings.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import Any

from hmz_mp.agents.prompts import Prompt

__all__ = ["Key", "id_of", "identified"]

Key = str | Callable[[Any], object] | None
_NAMES = ("item_id", "id", "path", "name")
_SHOWN = 10


async def identified(items: Iterable[Any] | AsyncIterable[Any], key: Key = None) -> dict[str, Any]:
    """Return the items by their ids, in order. Raises `ValueError` when two have the same."""
    if isinstance(items, (str, bytes)):
        raise TypeError("fan_out takes a list of items, not one text, which would go by letters")
    given = [item async for item in items] if isinstance(items, AsyncIterable) else items
    listed = list(given)
    ids = [id_of(item, key) for item in listed]
    found = dict(zip(ids, listed, strict=True))
    if len(found) < len(ids):
        twice = [repr(one) for one, count in Counter(ids).items() if count > 1]
        more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
        raise ValueError(
            f"several items have one id: {', '.join(twice[:_SHOWN])}{more}; each has to have its "
            "own, or key= has to tell them apart"
        )
    return found


def id_of(item: Any, key: Key = None) -> str:
    """Return the id of an item: a string, a number or a path itself, else a field of the item.

    That is ``item_id``, else ``id``, ``path`` or ``name``. ``key`` is the name of another field
    that has it, or a function that returns it. Raises `ValueError` for an item that has none.
    """
    if callable(key):
        return _text(key(item))
    if key is None:
        if isinstance(item, (str, bytes, int, float, os.PathLike)):
            return _text(item)
        if isinstance(item, Prompt):
            return item.item_id or item.text
    for name in _NAMES if key is None else (key,):
        value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        if value is not None:
            return _text(value)
    wanted = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}" if key is None else key
    raise ValueError(
        f"a {type(item).__name__} without {wanted} has no id of its own: say which of its fields "
        "has one with key='name', or key=function"
    )


def _text(value: object) -> str:
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
