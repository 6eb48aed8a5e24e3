from __future__ import annotations

import anyio
import pytest

from hmz_mp.agents.failures import Failed
from hmz_mp.agents.pieces import Pieces

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_pieces_are_the_answer() -> None:
    pieces = Pieces()
    pieces.restart()
    pieces.add("é".encode()[:1])
    pieces.add("é".encode()[1:] + b"1\n")
    assert await pieces.next() == "é1"  # the newline may be the last
    pieces.add(b"2\n")
    assert await pieces.next() == "\n2"
    pieces.close()
    assert await pieces.next() is None
    assert pieces.rest("é1\n2") == ""


async def test_what_was_not_taken_is_the_rest() -> None:
    pieces = Pieces()
    pieces.add(b"one")
    assert await pieces.next() == "one"
    pieces.add(b" two")
    pieces.close()
    assert await pieces.next() is None
    assert pieces.rest("one two") == " two"


async def test_a_wait_ends_with_the_next_piece_or_the_end() -> None:
    pieces = Pieces()
    got: list[str | None] = []

    async def take() -> None:
        while (piece := await pieces.next()) is not None:
            got.append(piece)
        got.append(None)

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        pieces.add(b"a")
        await anyio.wait_all_tasks_blocked()
        pieces.close()
    assert got == ["a", None]


async def test_another_try_that_answers_the_same() -> None:
    pieces = Pieces()
    pieces.restart()
    pieces.add(b"begun, dropped")
    pieces.restart()
    pieces.add(b"begun")
    assert await pieces.next() == "begun"
    pieces.restart()
    pieces.add(b"begun and done")
    pieces.close()
    assert await pieces.next() is None
    assert pieces.rest("begun and done") == " and done"


async def test_another_try_that_answers_otherwise() -> None:
    pieces = Pieces()
    pieces.add(b"begun")
    assert await pieces.next() == "begun"
    pieces.close()
    with pytest.raises(Failed, match="answered otherwise"):
        pieces.rest("done")
