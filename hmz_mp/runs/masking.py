"""Keys, tokens and passwords of the environment, masked in whatever is written down.

Owns which variables hold secrets. Imported by ``hmz_mp.runs`` only. What is handed to a flow or
put on standard output is not touched: it is the user's own.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MASK", "Masks"]

MASK = "***"
LEAST = 5  # characters: a shorter value is in every second text, and would make it unreadable
_NAMES = re.compile(r"_KEY\Z|_TOKEN\Z|SECRET|PASSWORD|\A(KEY|TOKEN)\Z", re.IGNORECASE)


class Masks:
    """The secrets of one environment. False if there are none."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        values = {value for name, value in given.items() if _NAMES.search(name)}
        forms = {form for value in values for form in _forms(value)}
        # The longest first: one secret may be the beginning of another.
        self._texts = sorted(forms, key=lambda one: (-len(one), one))
        self.longest = len(self._texts[0]) if self._texts else 0
        self._bytes = [one.encode("utf-8", "surrogateescape") for one in self._texts]

    def __repr__(self) -> str:
        return f"<Masks of {len(self._texts)} texts>"

    def __bool__(self) -> bool:
        return bool(self._texts)

    def text(self, text: str) -> str:
        """Return a text without them."""
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def data(self, data: bytes) -> bytes:
        """Return bytes without them."""
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        return data

    def value(self, value: object) -> object:
        """Return a value as a ledger may have it."""
        if isinstance(value, str):
            return self.text(value)
        return self.data(value) if isinstance(value, bytes) else value


def _forms(value: str) -> set[str]:
    """Return how a secret may be written: as it is, stripped, its lines, and inside JSON."""
    lines = [value, value.strip(), *(line.strip() for line in value.splitlines())]
    plain = {one for one in lines if len(one) >= LEAST}
    return plain | {_escaped(one) for one in plain}


def _escaped(text: str) -> str:
    import json

    return json.dumps(text)[1:-1]
