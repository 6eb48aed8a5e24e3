"""When memory is short; what there is of it is read in ``tests/faults/test_memory.py``."""

from __future__ import annotations

import pytest

from hmz_mp.core.machine import MachineMemory


@pytest.mark.parametrize(
    ("total", "available", "short"),
    [(100, 5, False), (100, 4, True), (1 << 40, 2 << 30, False), (1 << 40, 1 << 29, True)],
)
def test_when_memory_is_short(total: int, available: int, short: bool) -> None:
    assert MachineMemory(total, available).is_short() is short
