"""How an agent is written: ``BACKEND/MODEL`` or ``cli=BACKEND,model=MODEL,key=value``.

Takes the text apart and says what is wrong with it; what a model means is its kind's (`kinds`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hmz_mp.errors import BadInput

__all__ = ["Spec", "parse"]

_KEY = re.compile(r"(?:^|,)([a-z_]+)=")


class Spec(NamedTuple):
    """An agent's written form, taken apart."""

    text: str
    backend: str
    model: str
    settings: dict[str, str]


def parse(text: str) -> Spec:
    """Take a spec apart. Raises `BadInput` when it has no backend or no model.

    After ``BACKEND/`` the rest is the model, whole: slashes, colons, commas and blanks are its own.
    """
    if not isinstance(text, str):
        raise TypeError(f"an agent is written as a str, not {type(text).__name__}")
    if _KEY.match(text):
        return _parse_keys(text)
    backend, slash, model = text.partition("/")
    if not backend.strip() or not slash:
        raise BadInput(
            f"agent {text!r} is not written BACKEND/MODEL, as in tool/json:dumps or sh/'wc -l'"
        )
    return _checked(Spec(text, backend.strip(), model.strip(), {}))


def _parse_keys(text: str) -> Spec:
    found = list(_KEY.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    settings: dict[str, str] = {}
    for match, end in zip(found, ends, strict=True):
        if match[1] in settings:
            raise BadInput(f"agent {text!r} has {match[1]}= twice")
        settings[match[1]] = text[match.end() : end].strip()
    backend = settings.pop("cli", "")
    if not backend:
        raise BadInput(f"agent {text!r} has no cli=, which names its backend")
    return _checked(Spec(text, backend, settings.pop("model", ""), settings))


def _checked(spec: Spec) -> Spec:
    if not spec.model and "command" not in spec.settings:  # acp/'s, whose model is its own affair
        raise BadInput(f"agent {spec.text!r} has no model: what is {spec.backend}/ to run?")
    return spec
