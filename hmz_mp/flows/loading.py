"""From a flow's name to a checked `Flow`: its file is found, loaded under a private name, read.

Owns loading. The command line, ``calls`` and ``hmz_mp.flows`` import this module; it knows
nothing of agents or runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from hmz_mp.errors import BadInput
from hmz_mp.flows.checking import check_flow
from hmz_mp.flows.finding import find_flow
from hmz_mp.flows.hmz_names import hmz_in_sys_modules
from hmz_mp.flows.importing import FlowLoader, beside
from hmz_mp.flows.marking import mark_of
from hmz_mp.flows.tracebacks import flow_traceback
from hmz_mp.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from hmz_mp.flows.definition import Flow

__all__ = ["load_file", "load_flow"]


def load_flow(spec: str, *, start: Path | None = None, home: Path | None = None) -> Flow:
    """Find, load and check the flow that ``spec`` means (see ``finding``).

    Raises `BadInput` when there is none, when its file raises as it is loaded, when it holds no
    flow or several and none was named, and when the flow's signature does not say what it drives.
    """
    found = find_flow(spec, start=start, home=home)
    module = load_file(found.path)
    return check_flow(_choose(module, found.path, found.name), found.path)


def load_file(path: Path) -> ModuleType:
    """Load one flow file, once for each content it has had; `BadInput` when it raises."""
    path = path.resolve()
    name = _private_name(path)
    if name in sys.modules:
        return sys.modules[name]
    loader = FlowLoader(name, str(path), path.parent)
    package = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        name, path, loader=loader, submodule_search_locations=package
    )
    assert spec is not None  # a loader was given
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickling and annotations look it up there
    try:
        with hmz_in_sys_modules(), beside(path.parent):
            loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        shown = flow_traceback(error).rstrip()
        raise BadInput(f"the flow {_named(path)} raised while it was loaded:\n{shown}") from None
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _private_name(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"the flow {_named(path)} cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(bytes(str(path), "utf-8", "surrogateescape") + b"\0" + content)
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    safe = "".join(ch if ch.isalnum() and ch.isascii() else "_" for ch in stem)
    return f"hmz_mp_flow_{safe}_{digest.hexdigest()[:16]}"


def _choose(module: ModuleType, path: Path, wanted: str | None) -> Callable[..., Any]:
    named = _flows_of(module, path)
    if not named:
        raise BadInput(
            f"{_named(path)} holds no flow: mark a function with @flow (from hmz_mp.flows)"
        )
    names = ", ".join(printable(name) for name in named)
    if wanted is not None:
        if wanted not in named:
            raise BadInput(f"{_named(path)} has no flow '{printable(wanted)}'; it has: {names}")
        return named[wanted]
    if len(named) > 1:
        raise BadInput(f"{_named(path)} holds several flows ({names}): pick one with FILE:NAME")
    return next(iter(named.values()))


def _flows_of(module: ModuleType, path: Path) -> dict[str, Callable[..., Any]]:
    """Return the flows of a file: those it defines, or, if none, those it imports."""
    unique = {id(value): value for value in vars(module).values() if mark_of(value)}
    own = [value for value in unique.values() if value.__module__ == module.__name__]
    named: dict[str, Callable[..., Any]] = {}
    for function in own or unique.values():
        mark = mark_of(function)
        assert mark is not None
        if mark.name in named:
            raise BadInput(f"{_named(path)} has two flows named '{printable(mark.name)}'")
        named[mark.name] = function
    return named


def _named(path: Path) -> str:
    return printable(str(path))
