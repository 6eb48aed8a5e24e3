from __future__ import annotations

import functools
import importlib.util
import math
import operator
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hmz_mp import Pool
from hmz_mp.core import functions as functions_module
from hmz_mp.core import importable
from hmz_mp.core.functions import (
    Function,
    FunctionTable,
    name_of,
    pack_arguments,
    pack_initializer,
)
from hmz_mp.errors import Unpicklable
from hmz_mp_worker import framing
from hmz_mp_worker.payload import Payload, load
from tests.core import functions

FACTOR = 2
SETTINGS = {"factor": 1}


def by_global(value: int) -> int:
    return value * FACTOR


by_lambda = lambda value: value * FACTOR  # noqa: E731  # a lambda at the top of a module


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ("wrapped", function(*args, **kwargs))

    return wrapper


@decorate
def decorated(value: int) -> int:
    return value


async def coroutine() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


def counter() -> tuple[Callable[[], int], Callable[[], None]]:
    count = 0

    def read() -> int:
        return count

    def add() -> None:
        nonlocal count
        count += 1

    return read, add


@pytest.fixture
def table() -> FunctionTable:
    return FunctionTable()


def run(function: Function, *args: Any) -> Any:
    return load(function.data)(*args)


@pytest.fixture
def by_path(tmp_path: Path) -> Iterator[types.ModuleType]:
    """A module that is loaded, under a name by which nobody can import it."""
    name = "loaded_by_path"
    file = tmp_path / "file.py"
    file.write_text(
        "OFFSET = 5\n"
        "def add(value):\n    return value + OFFSET\n"
        "class Box:\n"
        "    def __init__(self, value): self.value = value\n"
        "    def add(self, value): return value + self.value\n"
        "    @classmethod\n    def made(cls, value): return cls(value).value\n"
    )
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]
    importable._importable.pop(name, None)
    if name.encode() in importable.by_value_names:
        importable.by_value_names.remove(name.encode())
    import cloudpickle

    if name in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.unregister_pickle_by_value(module)


# Found again.


def test_a_function_is_pickled_once(table: FunctionTable, monkeypatch: pytest.MonkeyPatch) -> None:
    first = table.resolve(by_global)
    monkeypatch.setattr(functions_module, "_pack_function", None)
    assert table.resolve(by_global) is first
    assert (first.id, first.name, first.kind, table.last_id) == (1, "by_global", "call", 1)


def test_a_lambda_that_carries_nothing_is_pickled_once(
    table: FunctionTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = lambda: 5  # noqa: E731
    first = table.resolve(small)
    monkeypatch.setattr(functions_module, "_pack_function", None)
    assert table.resolve(small) is first


def test_equal_ones_are_one_by_content(table: FunctionTable) -> None:
    first = table.resolve(functools.partial(pow, 2))
    assert table.resolve(functools.partial(pow, 2)) is first
    assert table.resolve(functools.partial(pow, 3)) is not first


def test_methods_of_equal_objects_are_one_by_content(table: FunctionTable) -> None:
    first = table.resolve(functions.Callable(3).method)
    assert table.resolve(functions.Callable(3).method) is first
    assert run(first, 5) == 15


def test_an_object_that_changes_is_pickled_again(table: FunctionTable) -> None:
    box = functions.Callable(3)
    assert run(table.resolve(box.method), 5) == 15
    box.factor = 4
    assert run(table.resolve(box.method), 5) == 20
    assert run(table.resolve(box), 5) == 20


def test_a_closure_that_changes_is_pickled_again(table: FunctionTable) -> None:
    read, add = counter()
    assert run(table.resolve(read)) == 0
    add()
    assert run(table.resolve(read)) == 1


@pytest.mark.parametrize(
    ("before", "after"), [(1, 2), (1, True), (1, 1.0), (0.0, -0.0), ("a", "b"), ([1], [1, 2])]
)
def test_a_closure_over_a_value_that_changes(
    table: FunctionTable, before: object, after: object
) -> None:
    value = before

    def read() -> object:
        return value

    assert repr(run(table.resolve(read))) == repr(before)
    value = after
    assert repr(run(table.resolve(read))) == repr(after)


def test_a_closure_over_something_that_changes_inside(table: FunctionTable) -> None:
    values = [1]
    read = lambda: list(values)  # noqa: E731
    assert run(table.resolve(read)) == [1]
    values.append(2)
    assert run(table.resolve(read)) == [1, 2]


def test_a_default_that_changes(table: FunctionTable) -> None:
    def read(value: int = 1) -> int:
        return value

    assert run(table.resolve(read)) == 1
    read.__defaults__ = (2,)
    assert run(table.resolve(read)) == 2


def test_nan_does_not_pickle_again_each_time(
    table: FunctionTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = math.nan
    read = lambda: value  # noqa: E731
    first = table.resolve(read)
    monkeypatch.setattr(functions_module, "_pack_function", None)
    assert table.resolve(read) is first


def main_module(source: str) -> dict[str, Any]:
    """Return the globals of code that belongs to ``__main__``, as a script's does."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(source, names)
    return names


def test_globals_of_main_that_change_are_seen(table: FunctionTable) -> None:
    names = main_module("FACTOR = 2\ndef by(value):\n    return value * FACTOR")
    assert run(table.resolve(names["by"]), 5) == 10
    names["FACTOR"] = 3
    assert run(table.resolve(names["by"]), 5) == 15


def test_globals_of_main_that_change_inside_are_seen(table: FunctionTable) -> None:
    names = main_module("SETTINGS = {'by': 2}\ndef by(value):\n    return value * SETTINGS['by']")
    assert run(table.resolve(names["by"]), 5) == 10
    names["SETTINGS"]["by"] = 3
    assert run(table.resolve(names["by"]), 5) == 15


def test_globals_that_functions_of_main_call_are_seen(table: FunctionTable) -> None:
    names = main_module(
        "FACTOR = 2\ndef inner(v):\n    return [v * FACTOR for _ in '1'][0]\n"
        "def outer(v):\n    return inner(v)\n"
    )
    assert run(table.resolve(names["outer"]), 5) == 10
    names["FACTOR"] = 3
    assert run(table.resolve(names["outer"]), 5) == 15


def test_functions_of_main_that_call_each_other(table: FunctionTable) -> None:
    names = main_module(
        "def even(n):\n    return n == 0 or odd(n - 1)\n"
        "def odd(n):\n    return n != 0 and even(n - 1)\n"
    )
    assert run(table.resolve(names["even"]), 10)
    assert table.resolve(names["even"]) is table.resolve(names["even"])


def test_a_global_of_an_importable_module_that_a_lambda_reads(
    table: FunctionTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot go by name, so it goes by value, and has to follow."""
    assert run(table.resolve(by_lambda), 5) == 10
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3)
    assert run(table.resolve(by_lambda), 5) == 15


def test_many_functions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Function] = []
    table = FunctionTable(lambda: used)
    monkeypatch.setattr(functions_module, "_KEPT", 10)
    made = [table.resolve(functools.partial(pow, at)) for at in range(5)]
    used.append(made[0])
    for at in range(5, 40):
        table.resolve(functools.partial(pow, at))
    assert len(table._by_content) <= 11
    assert 1 not in table.dropped
    assert {2, 3, 4} <= set(table.dropped)
    assert len(set(table.dropped)) == len(table.dropped)
    again = table.resolve(functools.partial(pow, 1))
    assert again.id > 40


# Kinds and names.


@pytest.mark.parametrize(
    ("call", "kind", "name"),
    [
        (len, "call", "len"),
        (functions.identity, "call", "identity"),
        (functions.identity_async, "host", "identity_async"),
        (functools.partial(functions.identity_async, 1), "host", "identity_async"),
        (functools.partial(functools.partial(pow, 2), 3), "call", "pow"),
        (functions.Callable(2), "call", "Callable"),
        (functions.AsyncCallable(2), "host", "AsyncCallable"),
        (functions.Callable(2).method, "call", "Callable.method"),
        (functions.Callable, "call", "Callable"),
        (functions.Callable.by_class, "call", "Callable.by_class"),
        (operator.itemgetter(1), "call", "itemgetter"),
        (decorated, "call", "decorated"),
        (lambda: 0, "call", "<lambda>"),
    ],
)
def test_kinds_and_names(table: FunctionTable, call: Any, kind: str, name: str) -> None:
    function = table.resolve(call)
    assert function.kind == kind
    assert function.name.endswith(name)
    assert name_of(call) == function.name


@pytest.mark.parametrize("call", [5, "len", None, [len]])
def test_what_is_no_function(table: FunctionTable, call: Any) -> None:
    with pytest.raises(TypeError, match=f"a function, and this is {type(call).__name__}:"):
        table.resolve(call)


def test_a_coroutine_object(table: FunctionTable) -> None:
    with pytest.raises(TypeError, match=r"this is a coroutine: .*submit\(fn, \*args\)"):
        table.resolve(coroutine())  # type: ignore[arg-type]  # that it is none is the point


@pytest.mark.parametrize(
    "call", [generator, async_generator, functools.partial(generator)], ids=name_of
)
def test_generator_functions(table: FunctionTable, call: Any) -> None:
    with pytest.raises(TypeError, match=r"generator is a generator function.*return a list"):
        table.resolve(call)


# What cannot be carried.


def test_a_function_that_cannot_be_pickled(table: FunctionTable) -> None:
    lock = threading.Lock()

    def holds() -> object:
        return lock

    with pytest.raises(Unpicklable, match=r"the function .*holds cannot be carried.*lock"):
        table.resolve(holds)


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        ((1, threading.Lock()), {}, "argument 2 of len, of type lock,"),
        ((1,), {"key": [threading.Lock()]}, "argument 'key' of len, of type list,"),
    ],
)
def test_the_argument_that_cannot_be_pickled_is_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], what: str
) -> None:
    with pytest.raises(Unpicklable) as caught:
        pack_arguments(len, args, kwargs)
    assert caught.value.what.startswith(what)
    assert "cannot pickle" in caught.value.reason


def test_arguments_come_back() -> None:
    packed = pack_arguments(len, (1, lambda: 7), {"a": {2}})
    assert isinstance(packed, Payload)
    (one, seven), kwargs = load(packed.data)
    assert (one, seven(), kwargs) == (1, 7, {"a": {2}})


def test_an_initializer() -> None:
    initializer, initargs = load(pack_initializer(lambda a: a, (3,)))
    assert initializer(*initargs) == 3
    with pytest.raises(Unpicklable, match="the initializer"):
        pack_initializer(print, (threading.Lock(),))


# Modules that only the caller has.


def test_a_function_of_a_module_by_path_goes_by_value(
    table: FunctionTable, by_path: types.ModuleType
) -> None:
    function = table.resolve(by_path.add)
    del sys.modules[by_path.__name__]
    try:
        assert run(function, 1) == 6
    finally:
        sys.modules[by_path.__name__] = by_path


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda module: module.add, 6),
        (lambda module: functools.partial(module.add), 6),
        (lambda module: module.Box(5).add, 6),
        (lambda module: module.Box.made, 1),
    ],
    ids=["function", "partial", "method", "classmethod"],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_worker_cannot_import_runs_there(
    by_path: types.ModuleType, make: Callable[[types.ModuleType], Any], wanted: int
) -> None:
    async with Pool(1) as pool:
        assert await pool.run(make(by_path), 1) == wanted


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_arguments_of_a_class_that_a_worker_cannot_import(
    by_path: types.ModuleType,
) -> None:
    async with Pool(1) as pool:
        back = await pool.run(functions.identity, by_path.Box(3))
        assert type(back) is by_path.Box
        assert back.value == 3


@pytest.mark.anyio
async def test_every_kind_of_callable_runs() -> None:
    async with Pool(1) as pool:
        assert await pool.run(by_global, 4) == 8
        assert await pool.run(by_lambda, 4) == 8
        assert await pool.run(decorated, 4) == ("wrapped", 4)
        assert await pool.run(functools.partial(pow, 2), 5) == 32
        box = functions.Callable(3)
        assert await pool.run(box, 5) == await pool.run(box.method, 5) == 15
        assert await pool.run(functions.Callable.by_class, 1) == "Callable 1"
        assert await pool.run(functions.Callable.plain, 1) == 2
        assert (await pool.run(functions.Callable, 9)).factor == 9
        assert await pool.run(functions.AsyncCallable(3), 5) == 15
        assert await pool.run("a,b".split, ",") == ["a", "b"]
        assert await pool.run(operator.itemgetter(1), "xy") == "y"
        assert await pool.run(lambda: os.getpid()) != os.getpid()


@pytest.mark.anyio
async def test_failures_to_pickle_are_the_turns() -> None:
    async with Pool(1) as pool:
        lock = threading.Lock()
        turn = pool.submit(len, lock)
        assert turn.done()
        with pytest.raises(Unpicklable, match="argument 1 of len"):
            await turn
        with pytest.raises(Unpicklable, match="the function"):
            await pool.run(lambda: lock)
        with pytest.raises(TypeError, match="generator"):
            pool.submit(generator)
        with pytest.raises(Unpicklable, match=r"the result, of type _thread\.lock,"):
            await pool.run(threading.Lock)
        assert await pool.run(len, "ab") == 2
        statistics = pool.statistics()
        assert (statistics.failed, statistics.done) == (3, 1)


# Functions that carry too much.


@pytest.mark.anyio
async def test_a_function_that_carries_too_much_fails_its_turns_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions_module, "FUNCTION_CEILING", 1 << 20)
    async with Pool(1) as pool:
        turn = pool.submit(functools.partial(len, bytes(2 << 20)))
        with pytest.raises(Unpicklable, match=r"the function len cannot .* 2,097,\d+ bytes, and at "
                                              r"most 1,048,576 .* as an argument"):  # fmt: skip
            await turn
        with pytest.raises(Unpicklable, match="as an argument"):
            async for _ in pool.map(functools.partial(operator.add, bytes(2 << 20)), [b""]):
                pass
        assert await pool.run(len, bytes(2 << 20)) == 2 << 20
    with pytest.raises(Unpicklable, match=r"the initializer len .* as an argument"):
        Pool(1, initializer=len, initargs=(bytes(2 << 20),))


@pytest.mark.anyio
async def test_large_functions_are_sent_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they would be over the ceiling of a message."""
    monkeypatch.setattr(framing, "BODY_CEILING", 4 << 20)
    async with Pool(1) as pool:
        await pool.run(len, "")
        calls = [functools.partial(operator.add, bytes([at]) * (2 << 20)) for at in range(5)]
        turns = [pool.submit(call, b"!") for call in calls]
        assert [(await turn)[-2:] for turn in turns] == [bytes([at]) + b"!" for at in range(5)]
