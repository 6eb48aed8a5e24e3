"""Struct classes that go by value: to a process that never saw them, and back."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pytest

from hmz_mp_worker.payload import dump_by_value, pickle_by_value
from hmz_mp_worker.structs import is_struct_class

SCRIPT = '''
import sys, types
import msgspec
from typing import Generic, TypeVar

T = TypeVar("T")

class Point(msgspec.Struct, frozen=True, order=True):
    """A place."""
    x: int
    y: int = 7
    names: list[str] = []
    made: dict[str, int] = msgspec.field(default_factory=lambda: {"made": 1})

    def moved(self, by: int) -> "Point":
        return Point(self.x + by, self.y)

    @property
    def far(self) -> bool:
        return self.x > 10

    @classmethod
    def at(cls, x: int) -> "Point":
        return cls(x)

class Tagged(Point, tag="tagged", rename="camel", kw_only=True, forbid_unknown_fields=True):
    long_name: str
    other: int = msgspec.field(default=3, name="OTHER")

    def moved(self, by: int) -> "Tagged":
        return super().moved(by)

class Checked(msgspec.Struct):
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("below nought")
        self.value = Checked.twice(self.value)

    @staticmethod
    def twice(value: int) -> int:
        return 2 * value

class Box(msgspec.Struct, Generic[T], weakref=True, dict=True):
    held: T

class Empty(msgspec.Struct, array_like=True, gc=False):
    pass

def use() -> list:
    point = Point.at(1).moved(2)
    tagged = Tagged(1, long_name="n")
    said = [repr(point), point.far, Point(1) < Point(2), Point.__doc__, Point.__qualname__]
    said += [repr(tagged), msgspec.json.encode(tagged).decode(), repr(tagged.moved(5))]
    said += [Checked(2).value, repr(Box[int](3)), repr(Empty())]
    said.append(msgspec.json.encode(Empty()).decode())
    try:
        point.x = 3
    except AttributeError as error:
        said.append(str(error))
    try:
        Checked(-1)
    except ValueError as error:
        said.append(str(error))
    return said
'''


def script(name: str = "made_by_a_script") -> dict[str, Any]:
    """Run the script as a module that nothing can import."""
    namespace: dict[str, Any] = {"__name__": name}
    exec(SCRIPT, namespace)
    return namespace


def elsewhere(data: bytes, folder: Path, call: str) -> Any:
    """Unpickle in a fresh process, and return what it makes of it."""
    (folder / "data").write_bytes(data)
    code = (
        "import pickle; loaded = pickle.load(open('data', 'rb'));"
        f"pickle.dump({call}, open('answer', 'wb'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return pickle.loads((folder / "answer").read_bytes())


def test_a_class_behaves_elsewhere_as_it_does_here(tmp_path: Path) -> None:
    made = script()
    said = elsewhere(pickle_by_value(made["use"]), tmp_path, "loaded()")
    assert said == made["use"]()
    assert said[0] == "Point(x=3, y=7, names=[], made={'made': 1})"
    assert said[-2:] == ["immutable type: 'Point'", "below nought"]


@pytest.mark.parametrize("name", ["Point", "Tagged", "Checked", "Box", "Empty"])
def test_fields_and_options_are_the_same(tmp_path: Path, name: str) -> None:
    cls = script()[name]
    described = (
        "(loaded.__struct_fields__, loaded.__struct_encode_fields__, loaded.__match_args__,"
        " {n: getattr(loaded.__struct_config__, n) for n in dir(loaded.__struct_config__)"
        "  if n[0] != '_'}, loaded.__module__, loaded.__name__)"
    )
    assert elsewhere(pickle_by_value(cls), tmp_path, described) == eval(described, {"loaded": cls})


def test_loaded_where_it_was_made_it_is_the_class_itself() -> None:
    made = script()
    for name in ("Point", "Tagged", "Checked", "Box"):
        assert pickle.loads(pickle_by_value(made[name])) is made[name]
    before = made["Point"](2)
    assert pickle.loads(pickle_by_value(before)) == before
    with pytest.raises(ValueError, match="below nought"):
        made["Checked"](-1)


def test_instances_and_their_buffers() -> None:
    made = script()
    payload = dump_by_value([made["Point"](1), bytearray(1 << 20)])
    point, data = pickle.loads(payload.data, buffers=payload.buffers)
    assert (type(point), point.x, len(data)) == (made["Point"], 1, 1 << 20)


class Importable(msgspec.Struct):
    value: int


T = TypeVar("T")


class Generics(msgspec.Struct, Generic[T]):
    value: T


def test_what_can_be_imported_goes_by_name() -> None:
    assert b"_make" not in pickle_by_value([Importable(1), Generics[int](2)])


def test_which_classes_are_meant() -> None:
    assert is_struct_class(Importable)
    assert not is_struct_class(msgspec.Struct)
    assert not is_struct_class(Importable(1))
    assert not is_struct_class(int)
