"""Memory that values are received into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmz_mp_worker import memory as memory_module
from hmz_mp_worker.memory import copy_of, fresh, keep_freed_memory
from tests.helpers import run_python

HUGE = 5 << 20


@pytest.mark.parametrize("length", [1, 100, 1 << 16, HUGE])
@pytest.mark.parametrize("writable", [True, False])
def test_what_is_filled_is_the_value(length: int, writable: bool) -> None:
    memory = fresh(length, writable=writable)
    memory.view[:] = b"x" * length
    value = memory.value()
    assert type(value) is (bytearray if writable else bytes)
    assert value is memory.memory
    assert value == b"x" * length
    assert hash(bytes(value)) == hash(b"x" * length)


def test_nothing_at_all() -> None:
    assert fresh(0, writable=False).value() == b""
    assert type(fresh(0, writable=False).value()) is bytes
    assert fresh(0, writable=True).value() == bytearray()


def test_values_are_never_the_same_object() -> None:
    one, two = fresh(1, writable=False), fresh(1, writable=False)
    one.view[0], two.view[0] = 1, 2
    assert (one.value(), two.value()) == (b"\1", b"\2")
    assert bytes([1]) == b"\1"


def test_a_bytearray_may_grow_afterwards() -> None:
    memory = fresh(100_000, writable=True)
    memory.view[:] = bytes(100_000)
    value = memory.value()
    assert isinstance(value, bytearray)
    value += b"more"
    assert value == bytes(100_000) + b"more"


@given(st.binary(max_size=300), st.booleans())
def test_copies(data: bytes, writable: bool) -> None:
    copied = copy_of(memoryview(data), writable=writable)
    assert copied == data
    assert type(copied) is (bytearray if writable else bytes)


def test_a_large_copy_is_one_of_its_own() -> None:
    source = bytearray(b"a" * HUGE)
    kept, writable = (copy_of(memoryview(source), writable=one) for one in (False, True))
    source[0] = 0
    assert kept == writable == b"a" * HUGE


def test_where_there_is_no_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "_c_calls", lambda: None)
    for writable in (True, False):
        memory = fresh(1000, writable=writable)
        memory.view[:] = b"x" * 1000
        assert memory.value() == b"x" * 1000
        assert type(memory.value()) is (bytearray if writable else bytes)


WITHOUT = """
import sys
sys.modules["ctypes"] = None
from hmz_mp_worker.memory import fresh
memory = fresh(100_000, writable=False)
memory.view[:] = b"x" * 100_000
assert memory.value() == b"x" * 100_000
print(type(memory.memory).__name__)
"""


def test_a_python_without_ctypes(tmp_path: Path) -> None:
    assert run_python(["-c", WITHOUT], cwd=tmp_path).stdout.strip() == "bytearray"


def test_importing_it_does_not_import_ctypes(tmp_path: Path) -> None:
    code = "import sys, hmz_mp_worker.payload; print('ctypes' in sys.modules)"
    said = run_python(["-c", code], cwd=tmp_path)
    assert said.stdout.strip() == "False"


FAULTS = """
import resource
from hmz_mp_worker.memory import keep_freed_memory
keep_freed_memory()
def faults():
    held = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        held.append(bytearray(b"x") * (1 << 20))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(sum(faults() for _ in range(10)))
"""


@pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="this is about what glibc does"
)
def test_freed_memory_is_used_again(tmp_path: Path) -> None:
    """Without it, these are 20,480 faults: each piece is unmapped, and touched anew."""
    assert int(run_python(["-c", FAULTS], cwd=tmp_path).stdout) < 4000


def test_asking_twice_changes_nothing() -> None:
    keep_freed_memory()
    keep_freed_memory()
