"""User values as bytes: pickle 5 with out-of-band buffers, cloudpickle only where pickle cannot.

Values are opaque to the wire. A large pickle travels as a buffer of its own, so that it is never
copied into a message's body. Imports cloudpickle on first need only.
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar, NamedTuple

from hmz_mp_worker import wire
from hmz_mp_worker.framing import Buffer
from hmz_mp_worker.memory import copy_of
from hmz_mp_worker.structs import is_struct_class, reduce_struct_class

__all__ = [
    "INLINE_CEILING",
    "PLAIN",
    "Payload",
    "dump",
    "dump_back",
    "dump_by_value",
    "dump_inside",
    "dump_lone_bytes",
    "lighten",
    "load",
    "pack_failure",
    "pickle_by_value",
    "split",
    "text_of",
]

INLINE_CEILING = 1 << 16  # a larger pickle travels beside the message, not inside it
_OUT_OF_BAND_FROM = 1 << 16
_FAILURE_MOST = 1 << 26  # bytes of an exception's pickle; of a larger one its text arrives
_TEXT_MOST = 1 << 20  # characters of each of a failure's texts
_BUFFERS_MOST = 1000  # of one value; further ones stay inside its pickle
_FORMATS = frozenset("bBhHiIlLqQnNfd?c")  # of the views that `memoryview.cast` can make again
# Types whose pickle has nothing in it that needs a look: no class, no buffer, no reference.
PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})


class Payload(NamedTuple):
    """A pickled value and the buffers that were left out of its pickle."""

    data: bytes
    buffers: tuple[Buffer, ...] = ()


class _Buffers:
    """Collects a pickle's large contiguous buffers; small ones stay inside it.

    ``kept`` says that the pickle is kept for a while: what may change until then is copied.
    """

    __slots__ = ("_kept", "taken")

    def __init__(self, *, kept: bool = False) -> None:
        self.taken: list[Buffer] = []
        self._kept = kept

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: pickle says so itself
            return True
        if raw.nbytes < _OUT_OF_BAND_FROM or len(self.taken) >= _BUFFERS_MOST:
            return True
        self.taken.append(copy_of(raw, writable=True) if self._kept and not raw.readonly else raw)
        return False


def dump(value: Any, *, kept: bool = False) -> Payload:
    """Pickle ``value``, by cloudpickle when pickle cannot. Raises what cloudpickle raises.

    With ``kept`` it does not change with the value afterwards.
    """
    buffers = _Buffers(kept=kept)
    try:
        data = pickle.dumps(value, 5, buffer_callback=buffers)
    except Exception:  # pickle cannot; cloudpickle says why if it cannot either
        return dump_by_value(value, kept=kept)
    return Payload(data, tuple(buffers.taken)) if buffers.taken else Payload(data)


def dump_by_value(value: Any, *, kept: bool = False) -> Payload:
    """Pickle ``value`` with cloudpickle; ``kept`` is as in `dump`."""
    buffers = _Buffers(kept=kept)
    return Payload(pickle_by_value(value, buffers), tuple(buffers.taken))


def pickle_by_value(value: Any, buffers: _Buffers | None = None) -> bytes:
    """Return the pickle that cloudpickle makes of ``value``, its msgspec classes included."""
    with io.BytesIO() as file:
        _by_value_pickler()(file, 5, buffer_callback=buffers).dump(value)
        return file.getvalue()


@cache
def _by_value_pickler() -> Any:
    from dataclasses import MISSING

    from cloudpickle import Pickler, cloudpickle

    def reduce_code(code: CodeType) -> tuple[Any, ...]:
        # cloudpickle leaves the file's name out; tracebacks would not show the user's lines.
        make, args = cloudpickle._code_reduce(code)
        name = code.co_filename
        return make, tuple(name if one == "<dynamic-code>" else one for one in args)

    class ByValuePickler(Pickler):  # type: ignore[misc]  # cloudpickle ships no types
        dispatch_table: ClassVar[Any] = ChainMap(
            {
                CodeType: reduce_code,
                memoryview: _reduce_view,
                type(MISSING): lambda _: (_missing, ()),
            },
            Pickler.dispatch_table,
        )

        def reducer_override(self, obj: Any) -> Any:
            if is_struct_class(obj) and not cloudpickle._should_pickle_by_reference(obj):
                return reduce_struct_class(obj)
            reduced = super().reducer_override(obj)
            if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) > 2:
                # Where msgspec keeps what it found out about a dataclass or a TypedDict.
                reduced[2][0].pop("__msgspec_cache__", None)
            return reduced

    return ByValuePickler


def _missing() -> Any:
    """Return what a dataclass's field has that has no default: there is one in a process."""
    from dataclasses import MISSING

    return MISSING


class _View:
    """Pickles as a view whose content travels beside the pickle."""

    __slots__ = ("_view",)

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        return _reduce_view(self._view)


def _reduce_view(view: memoryview) -> tuple[Callable[..., object], tuple[Any, ...]]:
    """Reduce a view to one of the same content, or of its bytes where it is no plain array."""
    if view.c_contiguous and (view.nbytes or view.ndim == 1) and view.format in _FORMATS:
        return _view_of, (pickle.PickleBuffer(view), view.format, view.shape)
    return memoryview, (view.tobytes(),)


def _view_of(buffer: Buffer, form: str, shape: tuple[int, ...]) -> memoryview:
    flat: Any = memoryview(buffer).cast("B")
    view: memoryview = flat.cast(form) if len(shape) == 1 else flat.cast(form, shape)
    return view


def lighten(value: Any) -> Any:
    """Return what to pickle in place of ``value``: large bytes and views go without a copy.

    A buffer that is pickled by itself loads as the very ``bytes`` or ``bytearray`` that it was
    received into, or was kept inside the pickle as.
    """
    kind = type(value)
    if kind is memoryview:  # of any length: pickle knows none
        return _View(value)
    if (kind is bytes or kind is bytearray) and len(value) >= _OUT_OF_BAND_FROM:
        return pickle.PickleBuffer(value)
    return value


def _pickle_beside(value: Any) -> bytes:
    """Return the pickle of a value whose buffers travel beside it."""
    return pickle.dumps(value, 5, buffer_callback=lambda _: False)


# The same whatever the bytes are.
_LARGE_BYTES = _pickle_beside(pickle.PickleBuffer(b""))
_LARGE_ARGUMENT = _pickle_beside(((pickle.PickleBuffer(b""),), {}))


def dump_lone_bytes(args: tuple[Any, ...]) -> Payload | None:
    """Return the arguments' pickle if they are one large ``bytes``, else ``None``."""
    if len(args) == 1 and len(args[0]) >= _OUT_OF_BAND_FROM:
        return Payload(_LARGE_ARGUMENT, args)
    return None


class _ClassReference:
    """Finds a class of the coordinator's by cloudpickle's id of it."""

    @staticmethod
    def load(tracker_id: str) -> type:
        from cloudpickle import cloudpickle

        found: type = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[tracker_id]
        return found


def dump_back(value: Any) -> Payload:
    """Pickle what goes back to the coordinator.

    A class that came from there by value goes back as a reference. Sent by value, cloudpickle
    would find the caller's own class at the other end and set all its attributes anew.
    """
    if type(value) in PLAIN:
        if type(value) is bytes and len(value) >= _OUT_OF_BAND_FROM:
            return Payload(_LARGE_BYTES, (value,))
        return Payload(pickle.dumps(value, 5))
    buffers = _Buffers()
    data = _dump_back(lighten(value), buffers)
    return Payload(data, tuple(buffers.taken)) if buffers.taken else Payload(data)


def dump_inside(value: Any) -> bytes:
    """Pickle what goes back to the coordinator with all of it inside the pickle."""
    return _dump_back(lighten(value), None)


def _dump_back(value: Any, buffers: _Buffers | None) -> bytes:
    try:
        return pickle.dumps(value, 5, buffer_callback=buffers)
    except Exception:  # pickle cannot; cloudpickle says why if it cannot either
        if buffers is not None:
            buffers.taken.clear()
        return _dump_back_by_value(value, buffers)


_born_here: set[str] = set()  # ids of the classes that this process made and sent by value


def _dump_back_by_value(value: Any, buffers: _Buffers | None) -> bytes:
    from cloudpickle import cloudpickle

    known = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS

    class BackPickler(_by_value_pickler()):  # type: ignore[misc]  # made on first need
        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, type):
                return super().reducer_override(obj)
            tracker_id = known.get(obj)
            if tracker_id is not None and tracker_id not in _born_here:
                return _ClassReference.load, (tracker_id,)
            reduced = super().reducer_override(obj)
            if obj in known:
                _born_here.add(known[obj])
            return reduced

    with io.BytesIO() as file:
        BackPickler(file, 5, buffer_callback=buffers).dump(value)
        return file.getvalue()


def split(payload: Payload) -> tuple[bytes, tuple[Buffer, ...]]:
    """Return a payload as a message's ``data`` and the buffers of its frame."""
    if payload.buffers or len(payload.data) > INLINE_CEILING:
        return b"", (payload.data, *payload.buffers)
    return payload.data, ()


def load(data: Buffer, buffers: Sequence[Buffer] | None = None) -> Any:
    """Unpickle what `split` made. Raises whatever loading the value raises."""
    if buffers:
        return pickle.loads(buffers[0], buffers=buffers[1:])
    return pickle.loads(data)


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> object:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def _rebuild_group(
    cls: type[BaseExceptionGroup[Any]], message: str, inner: list[Any], state: dict[str, Any]
) -> object:
    error = cls.__new__(cls, message, inner)
    error.__dict__.update(state)
    return error


class _Rebuilt:
    """Pickles as an exception that is put together again without calling its ``__init__``."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        error = self._error
        if isinstance(error, BaseExceptionGroup):
            inner = [_Rebuilt(one) for one in error.exceptions]
            return _rebuild_group, (type(error), error.message, inner, dict(error.__dict__))
        return _rebuild, (type(error), error.args, dict(error.__dict__))


def _dump_exception(error: BaseException) -> bytes:
    """Return a pickle of ``error`` that loads as its own type, or ``b""``."""
    for form in (error, _Rebuilt(error)):
        try:
            data = _dump_back(form, None)  # all inside: a failure has none of a frame's buffers
            if len(data) > _FAILURE_MOST:
                return b""
            if type(pickle.loads(data)) is type(error):
                return data
        except BaseException:  # noqa: S112  # tried by loading: its __init__ may want, or do, anything
            continue
    return b""


def text_of(error: BaseException) -> str:
    """Return what an exception says, or that it cannot say it."""
    try:
        return str(error)
    except BaseException as reason:  # a __str__ of the user's that raises
        return f"<str() of it raised {type(reason).__name__}>"


def pack_failure(
    error: BaseException, *, skip: FrameType | None = None, unpicklable: str = ""
) -> bytes:
    """Encode an exception as a `wire.Failure`, leaving out traceback entries up to ``skip``."""
    kind = type(error)
    try:
        lines = "".join(traceback.format_exception(kind, error, _below(error.__traceback__, skip)))
    except BaseException as reason:  # the user's __str__, or a broken chain
        lines = f"{kind.__qualname__} (its traceback cannot be shown: {type(reason).__name__})\n"
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else (f"{kind.__module__}.{kind.__qualname__}")
    )
    pickled = b"" if unpicklable else _dump_exception(error)
    return wire.encode(
        wire.Failure(pickled, _clean(name), _clean(text_of(error)), _clean(lines), unpicklable)
    )


def _below(trace: TracebackType | None, skip: FrameType | None) -> TracebackType | None:
    if trace is not None and trace.tb_frame is skip:
        return trace.tb_next
    return trace


def _clean(text: str) -> str:
    """Return ``text`` without lone surrogates, which msgpack refuses, and not too long."""
    if len(text) > _TEXT_MOST:
        half = _TEXT_MOST // 2
        text = f"{text[:half]} [{len(text) - 2 * half:,} characters left out] {text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
