"""Tools as they are described to models, in the form of each service.

Imported by ``dispatch``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

from hmz_mp.tools import Tool, tool

__all__ = ["Flavour", "by_name", "schemas"]

Flavour = Literal["openai", "openai-responses", "anthropic"]
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def schemas(
    tools: Iterable[Tool[..., Any] | Callable[..., Any]], flavour: Flavour
) -> list[dict[str, Any]]:
    """Return what a service's ``tools=`` takes: ``openai`` is for its chat completions.

    Raises `TypeError` for a tool that cannot be described, `ValueError` for another flavour.
    """
    described = _FORMS.get(flavour)
    if described is None:
        raise ValueError(f"tools are described for {', '.join(_FORMS)}, not for {flavour!r}")
    return [described(one) for one in by_name(tools).values()]


def by_name(
    tools: Iterable[Tool[..., Any] | Callable[..., Any]],
) -> dict[str, Tool[..., Any]]:
    """Return tools by their names; a plain function becomes one.

    Raises `ValueError` for two of one name, and for a name that models' services do not take.
    """
    found: dict[str, Tool[..., Any]] = {}
    for given in tools:
        one = given if isinstance(given, Tool) else tool(given)
        if not _NAME.fullmatch(one.name):
            raise ValueError(
                f"{one.name!r} is no name for a model's tool: letters, digits, _ and -, at most 64"
            )
        if one.name in found:
            raise ValueError(f"two tools are called {one.name!r}")
        found[one.name] = one
    return found


def _of_chat(one: Tool[..., Any]) -> dict[str, Any]:
    function = {
        "name": one.name,
        "description": one.explanation,
        "parameters": one.parameters,
    }
    return {"type": "function", "function": function}


def _of_responses(one: Tool[..., Any]) -> dict[str, Any]:
    # Strict ones would have to require every parameter.
    return {"type": "function", **_of_chat(one)["function"], "strict": False}


def _of_anthropic(one: Tool[..., Any]) -> dict[str, Any]:
    return {"name": one.name, "description": one.explanation, "input_schema": one.parameters}


_FORMS: dict[str, Callable[[Tool[..., Any]], dict[str, Any]]] = {
    "openai": _of_chat,
    "openai-responses": _of_responses,
    "anthropic": _of_anthropic,
}
