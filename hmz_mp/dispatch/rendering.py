"""Values as text for a model or a report: a string as it is, all else as JSON, cut if long.

Owns what JSON is made of values that it cannot hold. Imported by ``dispatch`` and ``fanin``; it
knows nothing of calls or findings.
"""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from hmz_mp_worker.backends.protocol import encodable

__all__ = ["NotJson", "cut", "plain", "text_of"]


class NotJson(ValueError):
    """Raised when a value holds something that JSON cannot; the text says what."""


def text_of(value: Any) -> str:
    """Return a value as text that UTF-8 can hold. Raises `NotJson`.

    Structs, dataclasses, sets, paths, exceptions, numpy values and pydantic models are written as
    what they hold; a number that is none is ``NaN``, as Python's own JSON has it.
    """
    if isinstance(value, str):
        return encodable(value)
    return encodable(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value as dicts, lists, texts and numbers. Raises `NotJson`."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_replaced)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        name = type(value).__qualname__
        raise NotJson(f"a {name} that JSON cannot hold: {error}") from error


def _replaced(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    for method in ("model_dump", "tolist", "item"):  # pydantic; numpy's arrays and numbers
        if callable(found := getattr(value, method, None)):
            return found()
    raise TypeError(f"it has a {type(value).__qualname__} in it")


def cut(text: str, size: int, where: str = "") -> str:
    """Return at most ``size`` characters of a text, its end then saying that it was cut.

    ``where`` says where the whole is. What it says of the cut may be longer than ``size``.
    """
    if len(text) <= size:
        return text
    mark = f" … [cut: {len(text):,} characters in all{f', {where}' if where else ''}]"
    return text[: max(0, size - len(mark))].rstrip() + mark
