"""What a function by value carries: while all of it is the same, its pickle would be the same.

Looked at for each call of such a function, so all that is compared is identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from hmz_mp.core.importable import is_by_reference

__all__ = ["Carried"]

_UNCHANGING = (
    int,
    float,
    complex,
    str,
    bytes,
    bool,
    type(None),
    CodeType,
    ModuleType,
    type,
    BuiltinFunctionType,
)
_MISSING = object()
_NAMES_KEPT = 2048


class Carried:
    """What one callable carried when it was looked at by `collect`."""

    # The whole state: functions with their code and defaults; dicts with their lengths; entries
    # of dicts; and closures' cells; each with what was there.
    __slots__ = ("_cells", "_dicts", "_entries", "_functions")

    def __init__(self) -> None:
        self._functions: list[tuple[FunctionType, Any, Any, Any]] = []
        self._dicts: list[tuple[Mapping[str, Any], int]] = []
        self._entries: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._functions or self._dicts)

    def collect(self, call: Any) -> bool:
        """Take in what ``call`` carries by value; return whether a change of it would be seen."""
        if isinstance(call, (BuiltinFunctionType, type)):
            return True
        if type(call) is partial:
            # Its function and its arguments stay what they are; its keywords need not.
            self._dicts += [(call.keywords, 0), (vars(call), 0)]
            carries = not call.keywords and not vars(call) and all(map(self._is_seen, call.args))
            return carries and self.collect(call.func)
        if not isinstance(call, FunctionType):
            return False
        return is_by_reference(call) or self._collect(call)

    def is_unchanged(self) -> bool:
        """Whether all of it is still there, and the same."""
        for function, code, defaults, keywords in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
            ):
                return False
        for mapping, name, value in self._entries:
            if mapping.get(name, _MISSING) is not value:
                return False
        for mapping, length in self._dicts:
            if len(mapping) != length:
                return False
        return all(_content(cell) is value for cell, value in self._cells)

    def _collect(self, function: FunctionType) -> bool:
        if any(one[0] is function for one in self._functions):
            return True
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        self._functions.append((function, function.__code__, defaults, keywords))
        for value in defaults or ():
            if not self._is_seen(value):
                return False
        entries: list[tuple[Mapping[str, Any], str, Any]] = []
        for mapping in (keywords or {}, function.__dict__):
            self._dicts.append((mapping, len(mapping)))
            entries += [(mapping, name, value) for name, value in mapping.items()]
        space = function.__globals__
        names = _global_names(function.__code__)
        entries += [(space, name, space.get(name, _MISSING)) for name in names]
        cells = [(cell, _content(cell)) for cell in function.__closure__ or ()]
        self._entries += entries
        self._cells += cells
        values = (*(value for _, _, value in entries), *(value for _, value in cells))
        return all(self._is_seen(value) for value in values)

    def _is_seen(self, value: object) -> bool:
        """Whether a change of ``value`` itself would be seen: it cannot change, or is watched."""
        if isinstance(value, FunctionType):
            return is_by_reference(value) or self._collect(value)
        return value is _MISSING or isinstance(value, _UNCHANGING)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _MISSING


_names: dict[CodeType, tuple[str, ...]] = {}


def _global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names that code, and the code inside it, may look up in its globals."""
    found = _names.get(code)
    if found is None:
        inner = [name for const in _inner_codes(code) for name in _global_names(const)]
        found = tuple(dict.fromkeys([*code.co_names, *inner]))
        if len(_names) > _NAMES_KEPT:
            _names.clear()
        _names[code] = found
    return found


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))
