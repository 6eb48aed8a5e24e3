from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hmz_mp.agents import Prompt
from hmz_mp.core.ambient import Item
from hmz_mp.fanin.identity import id_of, identified

pytestmark = pytest.mark.anyio


class Service(msgspec.Struct):
    id: str
    url: str = ""


@dataclass
class Row:
    item_id: int


@pytest.mark.parametrize(
    ("item", "item_id"),
    [
        ("a", "a"),
        (b"\xff.py", "\udcff.py"),
        (Path("src/a.py"), "src/a.py"),
        (3, "3"),
        ({"item_id": "x", "id": "y"}, "x"),
        ({"id": 7}, "7"),
        ({"name": "n", "path": Path("a.py")}, "a.py"),
        ({"name": "n"}, "n"),
        (Service("s"), "s"),
        (Row(4), "4"),
        (Item("f.py", b"f.py"), "f.py"),
        (Prompt("look", path="a.py"), "a.py"),
        (Prompt("look"), "look"),
    ],
)
def test_ids(item: Any, item_id: str) -> None:
    assert id_of(item) == item_id


def test_an_id_by_another_field_or_a_function() -> None:
    assert id_of({"title": "n", "id": 1}, "title") == "n"
    assert id_of(Service("s", "http://x"), "url") == "http://x"
    assert id_of(Service("s", "http://x"), lambda one: (one.id, 1)) == "('s', 1)"


@pytest.mark.parametrize("item", [{"title": "n"}, object(), {"id": None}, None])
def test_an_item_without_an_id(item: Any) -> None:
    with pytest.raises(ValueError, match="key='name'"):
        id_of(item)
    with pytest.raises(ValueError, match="without serial"):
        id_of(item, "serial")


async def test_items_are_kept_in_order() -> None:
    assert list(await identified(iter("cab"))) == ["c", "a", "b"]

    async def items() -> AsyncIterator[int]:
        for number in (2, 1):
            yield number

    assert await identified(items()) == {"2": 2, "1": 1}
    assert await identified([]) == {}


async def test_two_of_one_id_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'a', 'b'; each"):
        await identified(["a", "b", "c", "a", "b"])
    with pytest.raises(ValueError, match="and 15 more"):
        await identified([n // 2 for n in range(50)])


@pytest.mark.parametrize("items", ["abc", b"abc"])
async def test_one_text_is_no_list(items: Any) -> None:
    with pytest.raises(TypeError, match="by letters"):
        await identified(items)
