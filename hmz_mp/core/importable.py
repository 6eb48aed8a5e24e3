"""What workers can import, and find there what this process finds: all else goes by value.

Knows nothing of pools. Any thread may ask.
"""

from __future__ import annotations

import builtins
import sys
from types import FunctionType, ModuleType

__all__ = ["by_value", "by_value_names", "is_by_reference", "is_importable", "replaced"]

# Names of modules as they stand in a pickle; a list, since other threads may read it meanwhile.
by_value_names: list[bytes] = [b"__main__"]
# Names that another module took from one that was importable, each time: who keeps an answer of
# `is_importable` asks again when there are more.
replaced: list[str] = []
# The modules that workers find by their names, or None.
_importable: dict[str, ModuleType | None] = {"__main__": None, "builtins": builtins}


def by_value(module: ModuleType) -> None:
    """Ship what ``module`` defines by value from now on, since workers cannot import it."""
    if module.__name__ != "__main__":
        import cloudpickle  # a slow import, that many programs do not need

        cloudpickle.register_pickle_by_value(module)
    _importable[module.__name__] = None
    if module.__name__.encode() not in by_value_names:
        by_value_names.append(module.__name__.encode())


def is_importable(name: str) -> bool:
    """Whether a worker can import module ``name`` and gets the one that is loaded here."""
    if name not in _importable:
        return _look_for(name)
    known = _importable[name]
    if known is None or (module := sys.modules.get(name)) is known:
        return known is not None
    if module is not None:  # another one, and a worker may have imported either
        by_value(module)
        replaced.append(name)
    return False


def _look_for(name: str) -> bool:
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    module = sys.modules.get(name)
    if module is None or _finds(name, getattr(module, "__file__", None)):
        _importable[name] = module
    else:
        by_value(module)
    return _importable[name] is not None


def is_by_reference(function: FunctionType) -> bool:
    """Whether a function is found in a worker by its module and name."""
    module, name = function.__module__, function.__qualname__
    if not module or not is_importable(module):
        return False
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _finds(name: str, file: str | None) -> bool:
    parent = sys.modules.get(name.rpartition(".")[0])
    path = getattr(parent, "__path__", None) if "." in name else None
    if "." in name and path is None:
        return file is None
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # noqa: S112  # a finder of somebody's that cannot be asked like this
            continue
        if spec is not None:
            return file is None or spec.origin in (file, "frozen")
    return False
