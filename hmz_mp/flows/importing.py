"""How a flow file, and the files beside it, are imported.

Owns the loader and the finder of flow files. Only ``loading`` imports this module.

A flow's file is not on ``sys.path``, so three things differ from a plain import. Its folder is
searched first for the imports that it, or a file beside it, makes, at load or later (names of the
standard library excepted). Imports of ``hmz`` in these files give ours, at load or later. And
what they define is pickled by value, since a worker could not import it.
"""

from __future__ import annotations

import builtins
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmz_mp.core.importable import by_value
from hmz_mp.flows.hmz_names import import_hmz, is_hmz

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

__all__ = ["FlowLoader", "beside"]

_folder: ContextVar[Path | None] = ContextVar("hmz_mp_flow_folder", default=None)


class FlowLoader(SourceFileLoader):
    """Loads one file of a flow; ``folder`` is where that flow's own modules are."""

    def __init__(self, fullname: str, path: str, folder: Path) -> None:
        super().__init__(fullname, path)
        self.folder = folder

    def exec_module(self, module: ModuleType) -> None:
        """Run the file with an import statement of its own, in its functions too.

        Functions keep the builtins of the module they were made in, which is why this is how an
        import inside a flow's function is told from everyone else's.
        """
        own = {**vars(builtins), "__import__": _import_statement(self.folder)}
        vars(module)["__builtins__"] = own
        super().exec_module(module)
        by_value(module)

    def set_data(self, path: str, data: object, *, _mode: int = 0o666) -> None:
        """Write no bytecode: a ``__pycache__`` in the user's project would be one more item."""


def _import_statement(folder: Path) -> Callable[..., ModuleType]:
    def import_(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and is_hmz(name):
            return import_hmz(name, fromlist)
        with beside(folder):
            return builtins.__import__(name, globals, locals, fromlist or (), level)

    return import_


class _BesideFinder(MetaPathFinder):
    """Finds modules beside a flow's file; asleep unless the import comes from such a file."""

    def __init__(self) -> None:
        self.owners: dict[str, Path] = {}  # top-level module name -> the folder it came from

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = _folder.get()
        if folder is None or (path is None and fullname in sys.stdlib_module_names):
            return None
        spec = PathFinder.find_spec(fullname, [str(folder)] if path is None else path, target)
        if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(folder):
            return None
        if path is None:
            self.owners[fullname] = folder
        if type(spec.loader) is SourceFileLoader:
            spec.loader = FlowLoader(fullname, spec.origin, folder)
        return spec

    def strangers(self, folder: Path) -> dict[str, ModuleType]:
        """Take out of ``sys.modules`` what came from the folders of other flows.

        Two flows may each have a ``helpers.py``.
        """
        others = {name for name, owner in self.owners.items() if owner != folder}
        return {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name.partition(".")[0] in others
        }


_finder = _BesideFinder()


@contextmanager
def beside(folder: Path) -> Iterator[None]:
    """Search ``folder`` first for what is imported while this is open."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    strangers = _finder.strangers(folder)
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)
        for name, module in strangers.items():
            sys.modules.setdefault(name, module)
