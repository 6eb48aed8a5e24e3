from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from hmz_mp.errors import BadInput
from hmz_mp.flows.settings import fit, read_settings


class AsStruct(msgspec.Struct):
    depth: int
    names: list[str] = []


@dataclass
class AsDataclass:
    depth: int
    names: list[str] | None = None


class AsModel(pydantic.BaseModel):
    depth: int
    names: list[str] = []


TYPES = [AsStruct, AsDataclass, AsModel]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "depth: 3\nnames: [a, b]\n"),
        ("s.YML", "depth: 3\nnames:\n  - a\n  - b\n"),
        ("s.toml", 'depth = 3\nnames = ["a", "b"]\n'),
        ("s.json", '{"depth": 3, "names": ["a", "b"]}'),
    ],
)
def test_reading(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_settings(path) == {"depth": 3, "names": ["a", "b"]}


def test_an_empty_yaml_file_holds_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("# nothing yet\n")
    assert read_settings(path) == {}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.ini", "", "its name must end in one of .json, .toml, .yaml, .yml"),
        ("s.json", "{", "Expecting property name"),
        ("s.toml", "depth =", "Invalid value"),
        ("s.yaml", "a: [", "while parsing"),
        ("s.yaml", "!!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("s.yaml", "- a\n- b\n", "it must hold names and their values"),
        ("s.yaml", "1: a\n", "it must hold names and their values"),
        ("s.json", '"depth"', "it must hold names and their values"),
    ],
)
def test_a_file_that_is_no_settings(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadInput, match=name) as caught:
        read_settings(path)
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"gone\.toml cannot be read: No such file"):
        read_settings(tmp_path / "gone.toml")
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(BadInput, match=r"latin\.json: 'utf-8' codec can't decode"):
        read_settings(tmp_path / "latin.json")


@pytest.mark.parametrize("wanted", TYPES)
def test_fitting(wanted: type[Any]) -> None:
    settings: Any = fit({"depth": 3, "names": ["a"]}, wanted, "s.yaml")
    assert type(settings) is wanted
    assert (settings.depth, settings.names) == (3, ["a"])


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize(
    ("raw", "field"),
    [({"depth": "deep"}, "depth: "), ({"depth": 1, "names": [2]}, "names"), ({}, "depth")],
)
def test_the_field_that_does_not_fit_is_named(
    wanted: type, raw: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput, match=rf"^s\.yaml: .*{field}"):
        fit(raw, wanted, "s.yaml")


@pytest.mark.parametrize("wanted", TYPES)
def test_an_unknown_setting_is_named(wanted: type) -> None:
    with pytest.raises(BadInput, match=r"no setting is called dept \(did you mean depth\?\)"):
        fit({"dept": 3}, wanted, "s.yaml")
    with pytest.raises(BadInput, match=r"is called x\\x1b \(there are: depth, names\)"):
        fit({"x\x1b": 3}, wanted, "s.yaml")


def test_a_check_of_the_type_itself() -> None:
    class Checked(pydantic.BaseModel):
        depth: int

        @pydantic.field_validator("depth")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 1:
                raise ValueError("must be at least 1")
            return value

    with pytest.raises(BadInput, match="depth: Value error, must be at least 1"):
        fit({"depth": 0}, Checked, "s.yaml")


def test_names_as_the_type_spells_them_in_files() -> None:
    class Renamed(msgspec.Struct, rename="kebab"):
        max_depth: int

    class Aliased(pydantic.BaseModel):
        depth: int = pydantic.Field(alias="max-depth")

    class Open(pydantic.BaseModel, extra="allow"):
        depth: int = 1

    assert fit({"max-depth": 3}, Renamed, "s").max_depth == 3
    assert fit({"max-depth": 3}, Aliased, "s").depth == 3
    assert fit({"more": 3}, Open, "s").model_extra == {"more": 3}


def test_plain_mappings() -> None:
    class Typed(TypedDict):
        depth: int

    assert fit({"depth": 3}, Typed, "s") == {"depth": 3}
    assert fit({"anything": [1]}, dict, "s") == {"anything": [1]}
    assert fit({"anything": [1]}, Any, "s") == {"anything": [1]}
