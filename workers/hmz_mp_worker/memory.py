"""Memory that a large value is received into: the value itself, never copied again.

Owns how it is taken from the system. Knows nothing of frames and messages. What costs here is not
the copying but the first touch of each new page (some 3 µs for 4 KiB, on a virtual machine), so
very large pieces ask for huge pages, and middle ones for being kept by the allocator.
"""

from __future__ import annotations

import mmap
from functools import cache
from typing import Any, NamedTuple

__all__ = ["Fresh", "copy_of", "fresh", "keep_freed_memory"]

_HUGE_FROM = 1 << 22  # bytes of a piece that asks for huge pages
_KEPT = 1 << 24  # bytes of a piece that the C library hands out again instead of unmapping it
_PAGE_MASK = mmap.PAGESIZE - 1
_HUGE_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)
_PYBUF_WRITE = 0x200


class Fresh(NamedTuple):
    """New memory: the object, and a view to fill it by before anybody else sees it."""

    memory: bytes | bytearray
    view: memoryview
    writable: bool

    def value(self) -> bytes | bytearray:
        """Return the object, once it is filled."""
        if self.writable or isinstance(self.memory, bytes):
            return self.memory
        return bytes(self.memory)


def fresh(length: int, *, writable: bool) -> Fresh:
    """Return a ``bytearray`` of any content if ``writable``, else ``bytes``, to be filled."""
    if not length:
        return Fresh(bytearray(), memoryview(bytearray()), writable)
    calls = _c_calls()
    if calls is not None:
        return calls.fresh(length, writable=writable)
    memory = bytearray(length)  # without ctypes, which some builds have not, for both
    return Fresh(memory, memoryview(memory), writable)


def copy_of(view: memoryview, *, writable: bool) -> bytes | bytearray:
    """Return a view's content."""
    if view.nbytes < _HUGE_FROM:
        return bytearray(view) if writable else bytes(view)
    memory = fresh(view.nbytes, writable=writable)
    memory.view[:] = view
    return memory.value()


@cache
def keep_freed_memory() -> None:
    """Have the C library keep what is freed, up to some 32 MiB, for what is allocated next.

    glibc keeps pieces as large as the largest that was ever mapped for itself and freed. So it is
    what any program does to itself that once used such a piece; it touches no page, and changes
    nothing where the user has set that threshold.
    """
    bytes(_KEPT)


class _CCalls:
    """CPython's own functions for objects that are filled after they were made."""

    def __init__(self, ctypes: Any) -> None:
        size, api = ctypes.c_ssize_t, ctypes.pythonapi
        self._new_bytes = self._call(api, "PyBytes_FromStringAndSize", ctypes.py_object)
        self._new_bytearray = self._call(api, "PyByteArray_FromStringAndSize", ctypes.py_object)
        self._new_bytes.argtypes = self._new_bytearray.argtypes = [ctypes.c_char_p, size]
        self._address_of_bytes = self._call(api, "PyBytes_AsString", ctypes.c_void_p)
        self._address_of_bytearray = self._call(api, "PyByteArray_AsString", ctypes.c_void_p)
        self._address_of_bytes.argtypes = [ctypes.py_object]
        self._address_of_bytearray.argtypes = [ctypes.py_object]
        self._view = self._call(api, "PyMemoryView_FromMemory", ctypes.py_object)
        self._view.argtypes = [ctypes.c_void_p, size, ctypes.c_int]
        self._madvise = getattr(ctypes.CDLL(None), "madvise", None)
        if self._madvise is not None:
            self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    @staticmethod
    def _call(api: Any, name: str, restype: Any) -> Any:
        found = api[name]  # a function object of our own: others may set theirs up otherwise
        found.restype = restype
        return found

    def fresh(self, length: int, *, writable: bool) -> Fresh:
        value = (self._new_bytearray if writable else self._new_bytes)(None, length)
        address = (self._address_of_bytearray if writable else self._address_of_bytes)(value)
        if length >= _HUGE_FROM and _HUGE_ADVICE is not None and self._madvise is not None:
            start = (address + _PAGE_MASK) & ~_PAGE_MASK
            end = (address + length) & ~_PAGE_MASK
            self._madvise(start, end - start, _HUGE_ADVICE)  # an advice: it may fail
        return Fresh(value, self._view(address, length, _PYBUF_WRITE), writable)


@cache
def _c_calls() -> _CCalls | None:
    try:
        import ctypes

        return _CCalls(ctypes)
    except (ImportError, AttributeError, OSError):
        return None
