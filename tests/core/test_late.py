from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import pytest

from hmz_mp import Pool
from hmz_mp.core.late import Late
from hmz_mp.errors import Unpicklable

pytestmark = pytest.mark.anyio


def told(late: bytes, *others: object, **named: object) -> tuple[int, tuple[object, ...], object]:
    return len(late), others, named


async def atold(late: bytes, *others: object) -> tuple[bytes, tuple[object, ...]]:
    return late, others


@pytest.mark.parametrize("size", [0, 10, 1 << 20, 20 << 20])
async def test_what_is_read_arrives(size: int) -> None:
    async with Pool(1) as pool:
        late = Late(lambda: bytes(size))
        assert await pool.run(told, late, "a", 1, b=2) == (size, ("a", 1), {"b": 2})
        large = os.urandom(1 << 20)  # beside the pickle too
        assert await pool.run(atold, late, large) == (bytes(size), (large,))
        assert (await pool.run(told, late, len, lambda: 3))[0] == size  # by value


async def test_it_is_read_when_its_call_is_shipped() -> None:
    seen: list[str] = []

    def read(name: str) -> bytes:
        seen.append(name)
        return name.encode()

    async with Pool(1, at_once=1) as pool:
        turns = [pool.submit(atold, Late(partial(read, name))) for name in "abc"]
        await turns[0]
        assert seen in (["a"], ["a", "b"])
        assert [(await turn)[0] for turn in turns] == [b"a", b"b", b"c"]
    assert seen == ["a", "b", "c"]


def fails_at_first(late: bytes, mark: str) -> bytes:
    if not Path(mark).exists():
        Path(mark).touch()
        raise ValueError("the first try")
    return late


async def test_it_is_read_again_for_another_try(tmp_path: Path) -> None:
    numbers = iter(range(10))
    async with Pool(1) as pool:
        late = Late(lambda: b"%d" % next(numbers))
        mark = str(tmp_path / "mark")
        assert await pool.options(retries=1).run(fails_at_first, late, mark) == b"1"


async def test_what_cannot_be_pickled_beside_it_is_named() -> None:
    async with Pool(1) as pool:
        with pytest.raises(Unpicklable, match="argument 2 of told"):
            await pool.run(told, Late(lambda: b""), threading.Lock())
