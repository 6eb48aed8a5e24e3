"""Reading the ``key=value`` settings of a spec, and saying what is wrong with one.

Owns the settings that every kind has. Raises `BadInput` for whatever the user has to correct.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from hmz_mp.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hmz_mp.agents.spec import Spec

__all__ = ["Settings", "pool_options"]

_POOL: dict[str, Callable[[str], float]] = {"timeout": float, "retries": int, "at_once": int}
_AUTO = "auto"  # of at_once
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def pool_options(spec: Spec, others: Sequence[str] = ()) -> dict[str, Any]:
    """Return what every kind has: seconds for a turn, tries after the first, width (or ``auto``).

    ``others`` are the settings that the kind reads itself.
    """
    options: dict[str, Any] = {}
    for key, text in spec.settings.items():
        if key in others:
            continue
        read = _POOL.get(key)
        if read is None:
            raise BadInput(
                f"agent {spec.text!r}: {spec.backend}/ has no setting {key!r}; it has "
                f"{', '.join([*_POOL, *others])}"
            )
        if key == "at_once" and text == _AUTO:
            options[key] = text
        else:
            options[key] = _number(spec, key, text, read, zero=key != "timeout")
    return options


def _number(spec: Spec, key: str, text: str, read: Callable[[str], float], *, zero: bool) -> float:
    try:
        value = read(text)
    except ValueError:
        raise BadInput(f"agent {spec.text!r}: {key}={text!r} is not a number") from None
    if not 0 <= value < float("inf") or not (value or zero):
        raise BadInput(f"agent {spec.text!r}: {key}={text} is out of range")
    return value


class Settings:
    """The settings of a spec, read one by one by its kind."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._given = spec.settings

    def text(self, key: str, default: str = "") -> str:
        """Return a setting as it is."""
        return self._given.get(key, default)

    def seconds(self, key: str, default: float) -> float:
        """Return a number of seconds, more than 0."""
        text = self._given.get(key)
        return default if text is None else _number(self._spec, key, text, float, zero=False)

    def whole(self, key: str, default: int) -> int:
        """Return a whole number, more than 0."""
        text = self._given.get(key)
        return default if text is None else int(_number(self._spec, key, text, int, zero=False))

    def number(self, key: str, default: float | None) -> float | None:
        """Return a number, 0 or more."""
        text = self._given.get(key)
        return default if text is None else _number(self._spec, key, text, float, zero=True)

    def flag(self, key: str) -> bool:
        """Return whether a setting is on."""
        return self.one_of(key, ("false", "true"), "false") == "true"

    def one_of(self, key: str, known: Iterable[str], default: str) -> str:
        """Return one of a few words."""
        text = self._given.get(key, default)
        if text not in known and text != default:
            raise BadInput(f"agent {self._spec.text!r}: {key}={text} is none of {', '.join(known)}")
        return text

    def words(self, key: str) -> tuple[str, ...]:
        """Return a setting split as a shell splits words."""
        text = self._given.get(key, "")
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise BadInput(
                f"agent {self._spec.text!r}: {key}={text} cannot be split into words: {error}"
            ) from None

    def variables(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return words of the form NAME=VALUE. Secrets are refused: specs are written down."""
        found = []
        for word in self.words(key):
            name, equals, value = word.partition("=")
            if not equals or not name:
                raise BadInput(f"agent {self._spec.text!r}: {key}={word} is not NAME=VALUE")
            if _SECRET.search(name):
                raise BadInput(
                    f"{key}={name}=... looks like a secret, and what an agent is written as is "
                    "kept in the ledger: set it in your environment, which agents inherit"
                )
            found.append((name, value))
        return tuple(found)
