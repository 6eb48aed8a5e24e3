from __future__ import annotations

import os.path
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hmz_mp.core.carried import Carried


def made(source: str) -> tuple[Any, dict[str, Any]]:
    """Return the function ``f`` of a ``__main__`` of its own, and its globals."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(source, names)
    return names["f"], names


def looked_at(call: Any) -> Carried:
    carried = Carried()
    assert carried.collect(call)
    assert carried.is_unchanged()
    return carried


@pytest.mark.parametrize("call", [len, dict, os.path.join])
def test_what_workers_import_carries_nothing(call: Callable[..., Any]) -> None:
    assert not looked_at(call)


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("n = 1\ndef f(): return n", "n = 2"),
        ("n = 1\ndef f(): return n", "n = True"),
        ("n = 1\ndef f(): return n", "del n"),
        ("def f(): return later", "later = 1"),
        ("def f(a=1): return a", "f.__defaults__ = (2,)"),
        ("def f(*, a=1): return a", "f.__kwdefaults__['a'] = 2"),
        ("def f(*, a=1): return a", "f.__kwdefaults__ = {'a': 2}"),
        ("def f(): return f.mark", "f.mark = 1"),
        ("def f(): pass\nf.mark = 1", "f.mark = 2"),
        ("def f(): pass\nf.mark = 1", "f.other = 2"),
        ("def f(): return 1", "f.__code__ = (lambda: 2).__code__"),
        ("def g(): return 1\ndef f(): return g()", "g.__code__ = (lambda: 2).__code__"),
        ("def g(): return n\nn = 1\ndef f(): return g()", "n = 2"),
        ("def f(): return [n for _ in 'a']\nn = 1", "n = 2"),
        (
            "def make(n):\n def f(): return n\n def to(m):\n  nonlocal n; n = m\n return f, to\n"
            "f, to = make(1)",
            "to(2)",
        ),
    ],
)
def test_a_change_is_seen(source: str, change: str) -> None:
    f, names = made(source)
    carried = looked_at(f)
    exec(change, names)
    assert not carried.is_unchanged()


@pytest.mark.parametrize(
    "source",
    [
        "box = []\ndef f(): return box",
        "def f(a=[]): return a",
        "def f(*, a={}): return a",
        "def f(): pass\nf.box = []",
        "def make(box):\n def f(): return box\n return f\nf = make([])",
        "class Call:\n def __call__(self): pass\nf = Call()",
    ],
)
def test_what_may_change_unseen_is_refused(source: str) -> None:
    assert not Carried().collect(made(source)[0])


def test_functions_that_name_each_other() -> None:
    f, names = made("def f(n): return n and g(n - 1)\ndef g(n): return n and f(n - 1)\nk = 1")
    carried = looked_at(f)
    names["k"] = 2  # neither of them names it
    assert carried.is_unchanged()


def test_a_cell_that_is_not_filled_yet() -> None:
    f, names = made(
        "def make():\n def f(): return n\n def fill():\n  nonlocal n; n = 1\n"
        " if False: n = 0\n return f, fill\nf, fill = make()"
    )
    carried = looked_at(f)
    names["fill"]()
    assert not carried.is_unchanged()


# Partial functions.


def test_a_partial_function_of_what_cannot_change() -> None:
    looked_at(partial(os.path.join, "a", b"b", 1))
    looked_at(partial(partial(os.path.join, "a"), "b"))


def test_a_change_of_a_partial_function_is_seen() -> None:
    call = partial(os.path.join, "a")
    carried = looked_at(call)
    call.keywords["b"] = 1
    assert not carried.is_unchanged()
    named: Any = partial(os.path.join, "a")
    carried = looked_at(named)
    named.mark = 1
    assert not carried.is_unchanged()
    f, names = made("n = 1\ndef f(a): return n")
    carried = looked_at(partial(f, 1))
    names["n"] = 2
    assert not carried.is_unchanged()


def test_a_partial_function_of_what_may_change_is_refused() -> None:
    assert not Carried().collect(partial(os.path.join, []))
    assert not Carried().collect(partial(os.path.join, a=1))
    assert not Carried().collect(partial(print, sep=[]))
