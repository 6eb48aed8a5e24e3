from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from hmz_mp.core import importable
from hmz_mp.core.importable import by_value, by_value_names, is_by_reference, is_importable


@pytest.fixture
def lost() -> Iterator[ModuleType]:
    """A module that is loaded, and that nobody could import."""
    module = ModuleType("tests_lost_module")
    module.__file__ = "/nowhere/tests_lost_module.py"
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]
    importable._importable.pop(module.__name__, None)
    if module.__name__.encode() in by_value_names:
        by_value_names.remove(module.__name__.encode())
    if module.__name__ in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize("name", ["builtins", "json", "json.decoder", "os.path", __name__])
def test_what_workers_import(name: str) -> None:
    assert is_importable(name)


def test_what_they_cannot(lost: ModuleType) -> None:
    assert not is_importable("__main__")
    assert not is_importable(lost.__name__)
    assert lost.__name__.encode() in by_value_names
    assert not is_importable(lost.__name__)  # asked again


def test_a_module_that_is_not_loaded() -> None:
    assert not is_importable("tests_no_such_module")


def test_a_module_is_shipped_by_value_from_now_on(lost: ModuleType) -> None:
    by_value(lost)
    by_value(lost)
    assert by_value_names.count(lost.__name__.encode()) == 1
    assert lost.__name__ in cloudpickle.list_registry_pickle_by_value()


def test_functions_by_reference(lost: ModuleType) -> None:
    by_name: list[Any] = [json.dumps, json.JSONDecoder.decode]
    assert all(map(is_by_reference, by_name))
    nameless: Any = lambda: 0  # noqa: E731
    assert not is_by_reference(nameless)
    exec("def function(): pass", lost.__dict__)
    lost.function.__module__ = lost.__name__
    assert not is_by_reference(lost.function)
