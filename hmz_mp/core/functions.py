"""Functions and arguments as they are shipped.

A function is pickled once and named by an id from then on: found again by identity when nothing
it carries can have changed, else by the content of its pickle. What a worker cannot import (the
caller's ``__main__``, a module loaded by path, a lambda) goes by value, through cloudpickle; a
class of such a module is taken not to change between calls.
"""

from __future__ import annotations

import inspect
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from hmz_mp.core.carried import Carried
from hmz_mp.core.importable import by_value_names, is_importable, replaced
from hmz_mp.core.jobs import Kind, Timing
from hmz_mp.core.late import PLACEHOLDER, Late, LatePayload
from hmz_mp.errors import Unpicklable
from hmz_mp_worker.payload import (
    INLINE_CEILING,
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
    "NO_FUNCTION",
    "Function",
    "FunctionTable",
    "name_of",
    "pack_arguments",
    "pack_initializer",
]

FUNCTION_CEILING = 1 << 27  # bytes of a function's pickle: it is kept, here and in each worker
_KEPT = 512  # functions kept that no turn names, for the next one that does


class Function:
    """A function as it is shipped: its pickle, under an id."""

    __slots__ = ("data", "id", "kind", "name", "timing")

    def __init__(self, id: int, data: bytes, kind: Kind, name: str) -> None:  # noqa: A002  # a name
        self.id = id
        self.data = data
        self.kind: Kind = kind
        self.name = name
        self.timing = Timing()


NO_FUNCTION = Function(0, b"", "call", "")  # stands for one that could not be pickled


class _Known(NamedTuple):
    """A function found by identity, and what it carried when it was pickled."""

    source: Any  # held, so that its id() stays its own
    carried: Carried | None  # None: nothing
    function: Function


class FunctionTable:
    """The functions of one pool.

    ``in_use`` says which of them are named by turns that have not ended.
    """

    # The whole state: functions by the id() of the callable, and by their pickle, oldest first; how
    # many modules had been replaced by others of their names then.
    def __init__(self, in_use: Callable[[], Iterable[Function]] = tuple) -> None:
        self._in_use = in_use
        self._by_identity: OrderedDict[int, _Known] = OrderedDict()
        self._by_content: OrderedDict[bytes, Function] = OrderedDict()
        self._last = 0
        self._replaced = len(replaced)
        self.dropped: list[int] = []  # ids that workers may forget
        self.by_value = False  # whether one was shipped by value, so that workers need cloudpickle

    def known(self, call: Callable[..., Any]) -> Function | None:
        """Return the shipped form of a callable that was resolved before and has not changed."""
        known = self._by_identity.get(id(call))
        if known is None or known.source is not call:
            return None
        if known.carried is not None and not known.carried.is_unchanged():
            return None
        return known.function

    def _forget_replaced(self) -> None:
        """Forget what was found, once a module has been replaced by another of its name."""
        if self._replaced != len(replaced):
            self._replaced = len(replaced)
            self._by_identity.clear()
            self._by_content.clear()

    def resolve(self, call: Callable[..., Any]) -> Function:
        """Return the shipped form of a callable. Raises `TypeError` or `Unpicklable`."""
        found = self.known(call)
        if found is not None:
            return found
        _check_callable(call)
        data = _pack_function(call)
        self._forget_replaced()
        function = self._by_content.get(data)
        if function is None:
            function = self._add(call, data)
        carried = Carried()
        if carried.collect(call):
            self._by_identity[id(call)] = _Known(call, carried if carried else None, function)
            if len(self._by_identity) > _KEPT:
                self._by_identity.popitem(last=False)
        return function

    @property
    def last_id(self) -> int:
        """The id of the newest function."""
        return self._last

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
        used = set(self._in_use())
        unused = [one for one in self._by_content.values() if one not in used]
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


# Arguments.

_WITHOUT_BUFFERS = PLAIN - {bytes}


def _dump(value: Any) -> Payload:
    """Pickle a value, by value where a worker could not import what it refers to."""
    payload = dump(value, kept=True)
    if any(name in payload.data for name in by_value_names):
        return dump_by_value(value, kept=True)
    return payload


def pack_arguments(
    call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bytes | Payload | LatePayload:
    """Pickle a call's arguments: the positional ones alone where they are plain and small.

    A first one that is `Late` is left out. Raises `Unpicklable`, naming the one that cannot be
    pickled.
    """
    if not kwargs and _WITHOUT_BUFFERS.issuperset(map(type, args)):
        data = pickle.dumps(args, 5)
        return data if len(data) <= INLINE_CEILING else Payload(pickle.dumps((args, kwargs), 5))
    if not kwargs and PLAIN.issuperset(map(type, args)):
        lone = dump_lone_bytes(args)
        return lone if lone is not None else dump((tuple(map(lighten, args)), kwargs))
    if args and isinstance(args[0], Late):
        payload = _pack_values(call, (PLACEHOLDER, *args[1:]), kwargs)
        return LatePayload(args[0], payload.data, payload.buffers[1:])
    return _pack_values(call, args, kwargs)


def _pack_values(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
    args = tuple(map(lighten, args))
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
