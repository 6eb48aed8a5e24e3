"""``hmz``, ``hmz.agents``, ``hmz.flows`` and ``hmz.runner`` as flow files written for hmz see them.

Owns the modules that stand for hmz's. Only ``loading`` imports this module. The stand-ins live
in ``sys.modules`` while a flow file is loaded and never longer, so that everything else sees the
hmz that is installed, or none.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["hmz_in_sys_modules", "import_hmz", "is_hmz"]

_SOURCES = {
    "hmz.agents": "hmz_mp.agents",
    "hmz.flows": "hmz_mp.flows",
    "hmz.runner": "hmz_mp.flows",  # flows take `calls` from there
}
_swapping = threading.RLock()


def is_hmz(name: str) -> bool:
    """Tell whether a module name is hmz or something in it."""
    return name == "hmz" or name.startswith("hmz.")


def import_hmz(name: str, fromlist: Sequence[str] | None) -> ModuleType:
    """Do what ``__import__(name, fromlist=fromlist)`` does, with our modules."""
    modules = _stand_ins()
    if name not in modules:
        raise ModuleNotFoundError(f"hmz_mp has no {name!r} for flows written for hmz", name=name)
    return modules[name] if fromlist else modules["hmz"]


@contextmanager
def hmz_in_sys_modules() -> Iterator[None]:
    """Put the stand-ins in ``sys.modules`` while this is open, and what was there back after."""
    with _swapping:
        theirs = _take_hmz_out()
        sys.modules.update(_stand_ins())
        try:
            yield
        finally:
            _take_hmz_out()
            sys.modules.update(theirs)


def _take_hmz_out() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if is_hmz(name)}


@cache
def _stand_ins() -> dict[str, ModuleType]:
    top = ModuleType("hmz", "What hmz_mp offers to flows written for hmz.")
    top.__path__ = []
    modules = {name: _stand_in(name, source) for name, source in _SOURCES.items()}
    for name, module in modules.items():
        setattr(top, name.rpartition(".")[2], module)
    return {"hmz": top, **modules}


def _stand_in(name: str, source: str) -> ModuleType:
    """Return a module of its own that answers with the names of ``source``.

    ``source`` itself will not do: with its ``__path__``, ``import hmz.agents.spec`` would load
    our files a second time under another name.
    """
    ours = import_module(source)
    module = ModuleType(name, ours.__doc__)
    module.__path__ = []
    module.__file__ = ours.__file__  # the place that a failed `from ... import` names

    def attribute(wanted: str) -> Any:
        return getattr(ours, wanted)

    vars(module)["__getattr__"] = attribute
    vars(module)["__all__"] = list(ours.__all__)
    return module
