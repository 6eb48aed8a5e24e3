"""What a session can be set to, and is: its model, its mode and how hard it thinks. Pure.

Programs offer this as options of a session; older ones as models and modes of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Choice", "choices_of", "described"]

_NAMES_SHOWN = 12


class Choice(NamedTuple):
    """One of them: what it is called, what it is now, and what it can be.

    ``id`` is that of a session's option; empty where the program has a request of its own for it.
    """

    category: str
    id: str
    current: str
    values: tuple[str, ...]

    def request(self, session: str, value: str) -> tuple[str, dict[str, Any]]:
        """Return the request that sets it, and what is said in it."""
        if self.id:
            params = {"sessionId": session, "configId": self.id, "value": value}
            return "session/set_config_option", params
        return f"session/set_{self.category}", {"sessionId": session, f"{self.category}Id": value}


def choices_of(said: dict[str, Any]) -> dict[str, Choice]:
    """Return what a session offers, as its program says when it opens it."""
    found: dict[str, Choice] = {}
    for category, plural in (("model", "models"), ("mode", "modes")):
        offered = said.get(plural)
        if isinstance(offered, dict):
            name = category.capitalize()
            listed = offered.get(f"available{name}s")
            ids = _values(listed, "modelId" if category == "model" else "id")
            current = str(offered.get(f"current{name}Id") or "")
            found[category] = Choice(category, "", current, ids)
    options = said.get("configOptions")
    for option in options if isinstance(options, list) else []:
        if not isinstance(option, dict) or option.get("type") != "select":
            continue
        key, of = option.get("id"), option.get("category")
        if isinstance(key, str) and isinstance(of, str):
            current = str(option.get("currentValue") or "")
            found[of] = Choice(of, key, current, _values(option.get("options"), "value"))
    return found


def _values(listed: Any, key: str) -> tuple[str, ...]:
    """Return the values in a list, whose entries may be groups of them."""
    found: list[str] = []
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict):
            continue
        if isinstance(one.get(key), str):
            found.append(one[key])
        else:
            found.extend(_values(one.get("options"), key))
    return tuple(found)


def described(values: tuple[str, ...]) -> str:
    """Return them for people."""
    more = len(values) - _NAMES_SHOWN
    names = ", ".join(values[:_NAMES_SHOWN])
    return f"{names} and {more} more" if more > 0 else names
