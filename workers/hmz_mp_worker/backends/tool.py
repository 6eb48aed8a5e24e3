"""A turn of a ``tool/`` agent: a Python function, found by name, called with what it takes.

Owns how a target is loaded, which parameter gets what, and what becomes of the answer. The
coordinator imports it too, to say what is wrong with a target before any turn runs.

A target is ``MODULE:FUNCTION`` or ``/absolute/FILE.py:FUNCTION``; FUNCTION may be dotted. The
function is given, by parameter name, ``prompt``, ``path``, ``item_id``, ``task`` and ``cwd``. Its
first parameter is the prompt whatever its name, unless that is one of the other four. ``path`` is
a ``str`` that ``os.fsencode`` turns back into the file's bytes; a parameter annotated ``Path`` or
``bytes`` gets that instead.

A plain function runs with ``cwd`` as the process's directory. A coroutine function shares its
process with others, so it is not moved: its ``path`` is absolute where there is a ``cwd``, which
it can take as a parameter too.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hmz_mp_worker.backends import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = [
    "GIVEN",
    "BadTarget",
    "Function",
    "arun",
    "as_text",
    "aturn",
    "is_async",
    "load",
    "run",
    "split_target",
    "turn",
]

GIVEN = ("prompt", "path", "item_id", "task", "cwd")


class BadTarget(Exception):
    """Raised when a module was loaded and the function of a target is not in it, or not usable."""


def turn(target: str, directory: str, *pieces: Any) -> str:
    """Do `run` with a request in pieces."""
    return run(target, directory, Request.of(*pieces))


async def aturn(target: str, directory: str, *pieces: Any) -> str:
    """Do `arun` with a request in pieces."""
    return await arun(target, directory, Request.of(*pieces))


def run(target: str, directory: str, request: Request) -> str:
    """Call a plain function and return its answer as text."""
    function = load(target, directory)
    with contextlib.chdir(request.cwd) if request.cwd else contextlib.nullcontext():
        answer = function.call(request)
        if inspect.iscoroutine(answer):  # a plain function that wraps a coroutine function
            answer = asyncio.run(answer)
        return as_text(answer, function.name)


async def arun(target: str, directory: str, request: Request) -> str:
    """Call a coroutine function on this loop and return its answer as text."""
    function = load(target, directory)
    if request.cwd is not None and request.path is not None:
        path = os.path.join(os.fsencode(request.cwd), request.path)  # noqa: PTH118  (bytes)
        request = msgspec.structs.replace(request, path=path)
    return as_text(await function.call(request), function.name)


def as_text(answer: object, name: str) -> str:
    """Return a ``str`` as it is and anything else as JSON. Raises `TypeError` for the rest."""
    if isinstance(answer, str):
        return str(answer)
    try:
        try:
            return msgspec.json.encode(answer, enc_hook=_plain).decode()
        except (UnicodeEncodeError, OverflowError):
            # msgspec refuses lone surrogates (file names) and integers beyond 64 bits.
            return json.dumps(msgspec.to_builtins(answer, enc_hook=_plain))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        kind = type(answer).__qualname__
        raise TypeError(
            f"{name} answered with a {kind} that JSON cannot hold ({error}); "
            "return a str or what JSON can hold"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic
        return dump(mode="json")
    raise TypeError(f"no JSON for {type(value).__qualname__}")


@functools.cache
def load(target: str, directory: str = "") -> Function:
    """Find the function that ``target`` names, once per process.

    ``directory`` is where modules are looked for last, after everything else on ``sys.path``, so
    that files of the working directory never shadow what is installed. Raises `BadTarget`, or
    whatever importing the module raised.
    """
    where, name = split_target(target)
    if directory and directory not in sys.path:
        sys.path.append(directory)
    module = _load_file(where) if where.endswith(".py") else importlib.import_module(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise BadTarget(f"{where} has no {name!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise BadTarget(f"{name!r} of {where} is a {type(found).__qualname__}, not a function")
    return Function(found, name)


def split_target(target: str) -> tuple[str, str]:
    """Return the module or file of a target, and the function in it."""
    where, _, name = target.rpartition(":")
    return where, name


def _load_file(file: str) -> ModuleType:
    path = Path(file)
    digest = hashlib.sha256(os.fsencode(file)).hexdigest()[:12]
    # The same name in every process, so that exceptions of its own classes unpickle.
    name = re.sub(r"\W", "_", f"_hmz_mp_file_{digest}_{path.stem}")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def is_async(function: Any) -> bool:
    """Tell whether calling ``function`` gives an awaitable."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = getattr(function, "__wrapped__", None) or type(function).__call__
    return inspect.iscoroutinefunction(function)


class _Parameter(NamedTuple):
    name: str
    gets: str
    by_position: bool
    without_path: Literal["fails", "none", "left out"]
    convert: Callable[[bytes], object]


class Function:
    """A loaded function and which of its parameters get what."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.is_async = is_async(function)
        self._parameters = _bind(function, name)

    def call(self, request: Request) -> Any:
        """Call the function with what it takes of the request."""
        positional: list[object] = []
        named: dict[str, object] = {}
        for parameter in self._parameters:
            value: object = getattr(request, parameter.gets)
            if parameter.gets == "path" and request.path is not None:
                value = parameter.convert(request.path)
            elif parameter.gets == "path" and parameter.without_path == "fails":
                raise TypeError(f"{self.name} takes a path, and this turn is about no file")
            elif parameter.gets == "path" and parameter.without_path == "left out":
                continue
            if parameter.by_position:
                positional.append(value)
            else:
                named[parameter.name] = value
        return self.function(*positional, **named)


def _bind(function: Callable[..., Any], name: str) -> list[_Parameter]:
    parameters = _parameters(function)
    if parameters is None:  # built-in functions may have no signature
        return [_Parameter("", "prompt", True, "fails", os.fsdecode)]
    prompt = _prompt_parameter(parameters)
    bound = []
    for parameter in parameters:
        if parameter is prompt:
            bound.append(_given(parameter, "prompt"))
        elif parameter.name in GIVEN and parameter.kind not in _VARIABLE:
            bound.append(_given(parameter, parameter.name))
        elif parameter.default is parameter.empty and parameter.kind not in _VARIABLE:
            raise BadTarget(
                f"{name} needs {parameter.name!r}, which no turn has; "
                f"a tool is given {', '.join(GIVEN)}"
            )
    return bound


def _given(parameter: inspect.Parameter, gets: str) -> _Parameter:
    by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
    kinds = _kinds(parameter.annotation)
    without_path: Literal["fails", "none", "left out"] = "fails"
    if parameter.default is not parameter.empty:
        without_path = "left out"
    elif kinds & {"None", "NoneType"}:
        without_path = "none"
    return _Parameter(parameter.name, gets, by_position, without_path, _converter(kinds))


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, AttributeError, SyntaxError, TypeError):  # annotations for a type checker
        pass
    except ValueError:
        return None
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return None


def _prompt_parameter(parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
    positional = [one for one in parameters if one.kind <= inspect.Parameter.VAR_POSITIONAL]
    others = GIVEN[1:]
    if positional and positional[0].name not in others:
        return positional[0]
    for parameter in parameters:
        if parameter.name == "prompt" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            return parameter
    for parameter in positional:
        if parameter.name not in others and parameter.default is parameter.empty:
            return parameter if parameter.kind not in _VARIABLE else None
    return None


def _kinds(annotation: object) -> set[str]:
    """Name the types that an annotation allows; it may be text that could not be evaluated."""
    if isinstance(annotation, str):
        return {part.strip().rpartition(".")[2] for part in annotation.split("|")}
    kinds = typing.get_args(annotation) or (annotation,)
    return {getattr(kind, "__name__", "") for kind in kinds}


def _converter(kinds: set[str]) -> Callable[[bytes], object]:
    if "str" not in kinds and "Path" in kinds:
        return lambda path: Path(os.fsdecode(path))
    if "str" not in kinds and "bytes" in kinds:
        return bytes
    return os.fsdecode
