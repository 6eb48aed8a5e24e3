"""Whether a function can be run as a flow, read from its signature.

Owns the rules: ``(agents, task[, config][, state])``, and an annotation on ``agents`` of a fixed
length. Only ``loading`` imports this module; it knows nothing of files or runs.
"""

from __future__ import annotations

import builtins
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

from hmz_mp.errors import BadInput
from hmz_mp.flows.definition import Flow, SettingsParameter
from hmz_mp.flows.marking import mark_of
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["check_flow"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_flow(function: Callable[..., Any], path: Path) -> Flow:
    """Return the `Flow` that a marked function is; `BadInput` when it cannot be one."""
    mark = mark_of(function)
    assert mark is not None
    try:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise BadInput("it yields, so it would not run: a flow is a plain or async function")
        agents, others = _parameters(function)
        state = others.pop("state", None)
        _check_state(state is not None, mark.resumable)
        return Flow(
            name=mark.name,
            path=path,
            function=function,
            settings=_settings(others, function),
            resumable=mark.resumable,
            **_agents(agents, function),
        )
    except BadInput as error:
        where = f"{printable(str(path))}: {printable(function.__name__)}()"
        raise BadInput(f"{where} is no flow: {error}") from None


def _parameters(
    function: Callable[..., Any],
) -> tuple[inspect.Parameter, dict[str, inspect.Parameter]]:
    """Return the agents' parameter, and those after the task's by name."""
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) < 2 or any(one.kind not in _POSITIONAL for one in parameters[:2]):
        raise BadInput("it must take agents and task, in that order")
    agents, _, *rest = parameters
    for one in rest:
        if one.kind not in _BY_NAME:
            raise BadInput(f"it takes agents, task, config and state; {one} is none of them")
    return agents, {one.name: one for one in rest}


def _check_state(takes_state: bool, resumable: bool) -> None:
    if resumable and not takes_state:
        raise BadInput("it is marked @flow(resumable=True) and must take a state: dict")
    if takes_state and not resumable:
        raise BadInput("it takes a state, so it must be marked @flow(resumable=True)")


def _settings(
    others: Mapping[str, inspect.Parameter], function: Callable[..., Any]
) -> SettingsParameter | None:
    if not others:
        return None
    if len(others) > 1:
        names = ", ".join(others)
        raise BadInput(f"it takes agents, task, config and state, but also {names}")
    (parameter,) = others.values()
    optional = parameter.default is not inspect.Parameter.empty
    wanted = _without_none(_settings_type(parameter, function))
    return SettingsParameter(parameter.name, wanted, optional)


def _settings_type(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        hints = typing.get_type_hints(holder, _globals_of(function))
    except Exception as error:  # whatever the flow's own expression raises
        raise BadInput(_unreadable(parameter, error)) from None
    return hints[parameter.name]


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    kept = [one for one in typing.get_args(annotation) if one is not types.NoneType]
    return kept[0] if len(kept) == 1 else annotation


def _agents(parameter: inspect.Parameter, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the ``places`` and ``make_agents`` of a `Flow`."""
    how = "annotate it with what it drives, as in agents: tuple[Agent, Agent]"
    if parameter.annotation is inspect.Parameter.empty:
        raise BadInput(f"its first argument does not say how many agents it drives; {how}")
    annotation = _evaluate(parameter, function)
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if _is_named_tuple(annotation):
        return {"places": annotation._fields, "make_agents": annotation._make}
    if typing.get_origin(annotation) is not tuple:
        raise BadInput(f"its agents are annotated {_shown(parameter)}, not a tuple; {how}")
    places = typing.get_args(annotation)
    if Ellipsis in places:
        raise BadInput(f"{_shown(parameter)} may be any number of agents; {how}")
    return {"places": ("",) * len(places), "make_agents": _plain_tuple}


def _plain_tuple(agents: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(agents)


def _is_named_tuple(annotation: Any) -> bool:
    return (
        isinstance(annotation, type)
        and issubclass(annotation, tuple)
        and hasattr(annotation, "_fields")
    )


def _shown(parameter: inspect.Parameter) -> str:
    return printable(inspect.formatannotation(parameter.annotation).strip("'"))


class _Anything:
    """What a name means that exists only for a type checker."""

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):  # typing looks for marks of its own
            raise AttributeError(name)
        return self

    def __getitem__(self, key: object) -> _Anything:
        return self

    def __or__(self, other: object) -> _Anything:
        return self

    def __call__(self) -> _Anything:  # typing takes only what can be called for a type
        return self


class _LenientNames(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, _Anything())


def _evaluate(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Return the value of the agents' annotation, also when it is a string.

    Names that are imported under ``TYPE_CHECKING`` stand for anything: agents are counted, not
    looked at.
    """
    annotation = parameter.annotation
    names = _globals_of(function)
    while isinstance(annotation, str):
        try:  # what typing.get_type_hints does, but for the names that are not there
            annotation = eval(annotation, names, _LenientNames(names))  # noqa: S307 - its own source
        except Exception as error:
            raise BadInput(_unreadable(parameter, error)) from None
    return annotation


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return found


def _unreadable(parameter: inspect.Parameter, error: Exception) -> str:
    text = printable(f"{type(error).__name__}: {error}")
    return f"the annotation of {parameter.name} cannot be read: {text}"
