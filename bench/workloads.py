"""The workloads: a function, its items, how they are awaited, and what has to come back."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Workload:
    """One thing to measure. ``expected`` computes an item's answer here, to verify."""

    title: str
    how: str
    function: Callable[[Any], Any]
    items: Callable[[], Sequence[Any]]
    expected: Callable[[Any], Any]


def no_op(value: int) -> int:
    """Return what came."""
    return value


def parse(path: str) -> int:
    """Parse a Python file; return how many nodes it has."""
    return sum(1 for _ in ast.walk(ast.parse(Path(path).read_bytes())))


def library_files(count: int) -> list[str]:
    """Return the first files of the standard library, by name, those that parse."""
    root = Path(sysconfig.get_path("stdlib"))
    packages = sorted(root.glob("[a-z]*/[a-z]*.py"))
    left_out = {"lib2to3", "site-packages", "test"}  # some of these do not parse, on purpose
    found = sorted(root.glob("*.py"))
    found += [path for path in packages if not left_out & set(path.parts)]
    return [str(path) for path in found if path.stat().st_size][:count]


WORKLOADS = {
    "noop": Workload("20,000 awaitable no-op calls, gathered", "gathered", no_op,
                     lambda: range(20_000), no_op),
    "one-by-one": Workload("2,000 no-op calls, one after the other", "one by one", no_op,
                           lambda: range(2_000), no_op),
    "parse": Workload("ast.parse and walk over 400 standard-library files", "gathered", parse,
                      lambda: library_files(400), parse),
}  # fmt: skip
