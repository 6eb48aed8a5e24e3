"""Functions and arguments as they are shipped.

A function is pickled once and named by an id from then on: found again by identity when nothing
it carries can have changed, else by the content of its pickle. What a worker cannot import (the
caller's ``__main__``, a module loaded by path, a lambda) goes by value, through cloudpickle; a
class of such a module is taken not to change between calls.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from hmz_mp.core.jobs import Kind, Timing
from hmz_mp.errors import Unpicklable
from hmz_mp_worker.payload import (
    PLAIN,
    Payload,
    dump,
    dump_by_value,
    dump_lone_bytes,
    lighten,
    pickle_by_value,
    text_of,
)

__all__ = [
    "Function",
    "FunctionTable",
    "by_value",
    "is_importable",
    "name_of",
    "pack_arguments",
    "pack_initializer",
]

FUNCTION_CEILING = 1 << 27  # bytes of a function's pickle: it is kept, here and in each worker
_KEPT = 512  # functions kept that no turn names, for the next one that does

_by_value_names: list[bytes] = [b"__main__"]  # a list: other threads may read it meanwhile
_importable: dict[str, bool] = {"__main__": False, "builtins": True}


def by_value(module: ModuleType) -> None:
    """Ship what ``module`` defines by value from now on, since workers cannot import it."""
    if module.__name__ != "__main__":
        import cloudpickle  # a slow import, that many programs do not need

        cloudpickle.register_pickle_by_value(module)
    _importable[module.__name__] = False
    if module.__name__.encode() not in _by_value_names:
        _by_value_names.append(module.__name__.encode())


class Function:
    """A function as it is shipped: its pickle, under an id."""

    __slots__ = ("data", "id", "kind", "name", "timing", "users")

    def __init__(self, id: int, data: bytes, kind: Kind, name: str) -> None:  # noqa: A002  # a name
        self.id = id
        self.data = data
        self.kind: Kind = kind
        self.name = name
        self.timing = Timing()
        self.users = 0  # turns that have not ended and name it


class _Known:
    """A function found by identity, and what it carried when it was pickled."""

    __slots__ = ("carried", "function", "source")

    def __init__(self, source: Any, carried: tuple[object, ...], function: Function) -> None:
        self.source = source  # held, so that its id() stays its own
        self.carried = carried
        self.function = function


class FunctionTable:
    """The functions of one pool."""

    # The whole state: functions by the id() of the callable, and by their pickle, oldest first.
    def __init__(self) -> None:
        self._by_identity: OrderedDict[int, _Known] = OrderedDict()
        self._by_content: OrderedDict[bytes, Function] = OrderedDict()
        self._last = 0
        self.dropped: list[int] = []  # ids that workers may forget
        self.by_value = False  # whether one was shipped by value, so that workers need cloudpickle

    def resolve(self, call: Callable[..., Any]) -> Function:
        """Return the shipped form of a callable. Raises `TypeError` or `Unpicklable`."""
        known = self._by_identity.get(id(call))
        if (
            known is not None
            and known.source is call
            and (not known.carried or _carries(call) == known.carried)
        ):
            return known.function
        _check_callable(call)
        data = _pack_function(call)
        function = self._by_content.get(data)
        if function is None:
            function = self._add(call, data)
        carried = _carries(call)
        if carried is not None:
            self._by_identity[id(call)] = _Known(call, carried, function)
            if len(self._by_identity) > _KEPT:
                self._by_identity.popitem(last=False)
        return function

    @property
    def last_id(self) -> int:
        """The id of the newest function."""
        return self._last

    def placeholder(self) -> Function:
        """Return a stand-in for a function that could not be pickled."""
        return Function(0, b"", "call", "")

    def _add(self, call: Callable[..., Any], data: bytes) -> Function:
        self._last += 1
        function = Function(self._last, data, _kind_of(call), name_of(call))
        self.by_value = self.by_value or b"cloudpickle" in data
        self._by_content[data] = function
        if len(self._by_content) > _KEPT:
            self._drop_unused()
        return function

    def _drop_unused(self) -> None:
        """Let go of the oldest functions that no turn names."""
        unused = [one for one in self._by_content.values() if not one.users]
        gone = {one.id for one in unused[: max(0, len(self._by_content) - _KEPT // 2)]}
        gone.discard(self._last)
        for function in [one for one in unused if one.id in gone]:
            del self._by_content[function.data]
        for key in [key for key, one in self._by_identity.items() if one.function.id in gone]:
            del self._by_identity[key]
        self.dropped.extend(gone)


def name_of(call: Any) -> str:
    """Return a callable's name, for people."""
    while isinstance(call, partial):
        call = call.func
    return str(getattr(call, "__qualname__", None) or type(call).__qualname__)


def _check_callable(call: Any) -> None:
    if inspect.iscoroutine(call):
        call.close()
        raise TypeError(
            "submit takes a function, and this is a coroutine: pass the function "
            "itself and its arguments, submit(fn, *args), not submit(fn(*args))"
        )
    if not callable(call):
        raise TypeError(
            f"submit takes a function, and this is {type(call).__name__}: pass the "
            "function itself and its arguments, submit(fn, *args)"
        )
    inner = _innermost(call)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(
            f"{name_of(call)} is a generator function, whose values would stay in the "
            "worker: return a list"
        )


def _innermost(call: Any) -> Any:
    while isinstance(call, partial):
        call = call.func
    if not isinstance(call, (FunctionType, BuiltinFunctionType, MethodType, type)):
        return type(call).__call__
    return call


def _kind_of(call: Any) -> Kind:
    return "host" if inspect.iscoroutinefunction(_innermost(call)) else "call"


def _pack_function(call: Any) -> bytes:
    return _within_ceiling(_pickle_function(call), f"the function {name_of(call)}")


def _within_ceiling(data: bytes, what: str) -> bytes:
    """Return a pickle that is small enough to be kept and sent whole. Raises `Unpicklable`."""
    if len(data) > FUNCTION_CEILING:
        raise Unpicklable(
            what,
            f"its pickle, with what it carries, has {len(data):,} bytes, and at most "
            f"{FUNCTION_CEILING:,} are sent with a function: pass what is large as an argument",
        )
    return data


def _pickle_function(call: Any) -> bytes:
    try:
        if isinstance(call, (FunctionType, BuiltinFunctionType, type)):
            if not is_importable(getattr(call, "__module__", None) or "builtins"):
                return pickle_by_value(call)
            return dump(call).data
        for home in _homes(call):
            is_importable(home)
        payload = _dump(call)
        return payload.data if not payload.buffers else pickle_by_value(call)
    except Exception as error:
        raise Unpicklable(f"the function {name_of(call)}", _reason(error)) from error


def _homes(value: Any) -> Iterator[str]:
    """Yield the modules of what a worker needs to load a value, seen from outside."""
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, MethodType):
        yield getattr(value.__func__, "__module__", None) or "builtins"
        value = value.__self__
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    yield kind.__module__ or "builtins"


def is_importable(name: str) -> bool:
    """Whether a worker can import module ``name`` and gets the one that is loaded here."""
    known = _importable.get(name)
    if known is None:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return True
        module = sys.modules.get(name)
        known = module is not None and _finds(name, getattr(module, "__file__", None))
        if known or module is None:
            _importable[name] = known
        else:
            by_value(module)
    return known


def _is_by_reference(function: FunctionType) -> bool:
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


# What a function by value carries: when all of it is the same, its pickle would be the same.

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


def _carries(call: Any) -> tuple[object, ...] | None:
    """Return what a callable carries by value, or ``None`` if that may change unseen."""
    if isinstance(call, (BuiltinFunctionType, type)):
        return ()
    if not isinstance(call, FunctionType):
        return None
    if _is_by_reference(call):
        return ()
    carried: list[object] = []
    return tuple(carried) if _collect(call, carried, set()) else None


def _collect(function: FunctionType, carried: list[object], seen: set[int]) -> bool:
    """Add what ``function`` carries to ``carried``; return whether none of it can change."""
    if id(function) in seen:
        return True
    seen.add(id(function))
    for value in _references(function):
        carried.append(type(value))  # 1 == True == 1.0
        carried.append(value if not isinstance(value, float) else repr(value))  # NaN != NaN
        if isinstance(value, FunctionType):
            if not _is_by_reference(value) and not _collect(value, carried, seen):
                return False
        elif not isinstance(value, _UNCHANGING):
            return False
    return True


def _references(function: FunctionType) -> Iterator[object]:
    yield function.__code__
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield cell
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


_names: dict[CodeType, tuple[str, ...]] = {}


def _global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names that code, and the code inside it, may look up in its globals."""
    found = _names.get(code)
    if found is None:
        inner = [
            one
            for const in code.co_consts
            if isinstance(const, CodeType)
            for one in _global_names(const)
        ]
        found = tuple(dict.fromkeys([*code.co_names, *inner]))
        if len(_names) > 4 * _KEPT:
            _names.clear()
        _names[code] = found
    return found


# Arguments.


def _dump(value: Any) -> Payload:
    """Pickle a value, by value where a worker could not import what it refers to."""
    payload = dump(value, kept=True)
    if any(name in payload.data for name in _by_value_names):
        return dump_by_value(value, kept=True)
    return payload


def pack_arguments(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
    """Pickle a call's arguments. Raises `Unpicklable`, naming the one that cannot be."""
    if not kwargs and PLAIN.issuperset(map(type, args)):
        if bytes not in map(type, args):
            return Payload(pickle.dumps((args, kwargs), 5))
        if (lone := dump_lone_bytes(args)) is not None:
            return lone
        light = tuple([lighten(value) for value in args])
        return dump((light, kwargs))
    args = tuple([lighten(value) for value in args])
    try:
        for value in (*args, *kwargs.values()):
            for home in _homes(value):
                is_importable(home)
        return _dump((args, kwargs))
    except KeyboardInterrupt:  # somebody's at the keyboard, hardly the argument's
        raise
    except BaseException as error:  # pickling runs the user's code
        raise Unpicklable(_guilty(call, args, kwargs), _reason(error)) from error


def pack_initializer(initializer: Callable[..., Any], initargs: tuple[Any, ...]) -> bytes:
    """Pickle a pool's initializer with its arguments. Raises `Unpicklable`."""
    what = f"the initializer {name_of(initializer)}"
    try:
        is_importable(getattr(initializer, "__module__", None) or "builtins")
        payload = _dump((initializer, initargs))
        data = payload.data if not payload.buffers else pickle_by_value((initializer, initargs))
    except Exception as error:
        raise Unpicklable(what, _reason(error)) from error
    return _within_ceiling(data, what)


def _guilty(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    labelled = [(f"argument {at}", value) for at, value in enumerate(args, 1)]
    labelled += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    for label, value in labelled:
        try:
            _dump(value)
        except BaseException:
            return f"{label} of {name_of(call)}, of type {type(value).__qualname__},"
    return f"the arguments of {name_of(call)}"


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"
